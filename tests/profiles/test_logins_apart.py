"""How a node is logged in to, and how its host file was written, is nothing that ranks get to see."""

from __future__ import annotations

import json

import pytest
from plan_samples import facts, gpus, profile

from rankdeck_profiles.files import load_pool
from rankdeck_profiles.planner import plan

FRAMEWORKS = ("torchrun", "pytorch", "deepspeed", "tensorflow", "jax", "lightning", "accelerate", "command")
OF_FRAMEWORK = {"command": {"command": ("./a",), "script": None}}


def made(framework: str, path) -> dict:
    pool = load_pool(path)
    known = {node.name: facts(node.name, gpus=gpus(2)) for node in pool.nodes}
    return plan(profile(framework, **OF_FRAMEWORK.get(framework, {})), pool, known).to_json()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_user_and_port_of_a_login_are_in_no_plan(tmp_path, framework):
    path = tmp_path / "lab.toml"
    path.write_text('backend = "ssh"\nnodes = ["zebedee@n1:2299", "zebedee@n2:2299"]\n')
    found = made(framework, path)
    assert found["head"]["address"] == "10.0.0.1"
    assert [node["node"] for node in found["nodes"]] == ["n1", "n2"]
    text = json.dumps(found)
    assert "zebedee" not in text
    if framework == "deepspeed":  # its mpirun logs in to the other nodes by itself
        text = text.replace("-p 2299", "")
    assert "2299" not in text


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "data",
    [b"n1 slots=2\r\nn2 slots=2\r\n", b"\xef\xbb\xbfn1 slots=2\nn2\xc2\xa0slots=2"],
    ids=["windows", "byte order mark"],
)
def test_what_another_system_left_in_a_host_file_goes_nowhere(tmp_path, framework, data):
    (tmp_path / "hosts").write_bytes(data)
    path = tmp_path / "lab.toml"
    path.write_text('backend = "ssh"\nhostfile = "hosts"\n')
    assert load_pool(path).notes
    text = json.dumps(made(framework, path), ensure_ascii=False)
    assert not {"\r", "\\r", "\ufeff", "\u00a0"} & set(text)
    assert "\\r" not in text
    assert (tmp_path / "hosts").read_bytes() == data


@pytest.mark.parametrize(
    ("host", "written"), [("2001:db8::7", "[2001:db8::7]:"), ("192.0.2.7", "192.0.2.7:")]
)
def test_address_and_port_are_joined_as_they_are_read(tmp_path, host, written):
    path = tmp_path / "lab.toml"
    path.write_text('backend = "ssh"\nnodes = ["n1", "n2"]\n')
    pool = load_pool(path)
    known = {node.name: facts(node.name, gpus=gpus(2), address=host) for node in pool.nodes}
    for framework in ("tensorflow", "jax"):
        text = json.dumps(plan(profile(framework), pool, known).to_json())
        assert written in text, framework
        assert f"{host}:4" not in text.replace(f"{written}4", ""), framework
