"""Where no cluster can be made, the reason is precise."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from cluster import missing, requirements


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert missing() == "the test cluster needs Linux namespaces, and this is darwin"


def test_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in (missing() or "")


def test_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name in {"nft", "/usr/sbin/sshd"} else f"/bin/{name}"
    )
    assert missing() == "the test cluster needs packages that are not installed: nftables openssh-server"


def test_namespaces_that_are_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")

    def refused(argv: list[str]) -> str:
        raise requirements.ClusterError(f"{argv[0]}: Operation not permitted")

    monkeypatch.setattr(requirements, "tool", refused)
    assert "does not allow (unshare: Operation not permitted)" in (missing() or "")
