"""A Kerberos realm of the test's own: a real KDC on a loopback port, sshd's keytab, the user's ticket."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from open_sshd import free_port

REALM = "RANKDECK.TEST"
PASSWORD = "a ticket, please"
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "klist", "kdestroy")
LIMIT = 60.0


def missing() -> str | None:
    """What of MIT Kerberos is not installed; None if all is there."""
    lacking = [tool for tool in TOOLS if _which(tool) is None]
    return (
        f"not installed: {', '.join(lacking)} (krb5-kdc, krb5-admin-server, krb5-user)" if lacking else None
    )


def _which(tool: str) -> str | None:
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/usr/local/sbin:/sbin")


class Realm:
    """One realm. `environment` is what clients and sshd need of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.port = free_port()
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5_KTNAME": str(folder / "keytab"),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
        }
        (folder / "krb5.conf").write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
            "dns_canonicalize_hostname = false\nrdns = false\n"
            f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{self.port}\n}}\n"
            f"[domain_realm]\nlocalhost = {REALM}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_ports = {self.port}\nkdc_tcp_ports = {self.port}\n"
            f"[realms]\n{REALM} = {{\n"
            f" database_name = {folder}/principal\n key_stash_file = {folder}/stash\n}}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        for order in (
            f'addprinc -pw "{PASSWORD}" {getpass.getuser()}',
            "addprinc -randkey host/localhost",
            f"ktadd -k {folder}/keytab host/localhost",
        ):
            self._run("kadmin.local", "-r", REALM, "-q", order)
        with (folder / "kdc.log").open("wb") as log:
            self._kdc = subprocess.Popen(
                [str(_which("krb5kdc")), "-n", "-r", REALM],
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise AssertionError(f"the KDC did not start:\n{(folder / 'kdc.log').read_text()}")

    def log_in(self) -> None:
        """Get a ticket, as a person does with kinit."""
        self._run("kinit", getpass.getuser(), typed=PASSWORD + "\n")

    def log_out(self) -> None:
        self._run("kdestroy", "-A")

    def stop(self) -> None:
        self._kdc.kill()
        self._kdc.wait(30)

    def _run(self, tool: str, *arguments: str, typed: str = "") -> None:
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            [str(_which(tool)), *arguments],
            env=environment,
            input=typed,
            text=True,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done
