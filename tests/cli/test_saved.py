"""`rankdeck profiles` and `rankdeck pools`."""

from __future__ import annotations

from cli.user import Shell


def test_a_pool_is_made_listed_shown_and_removed(rankdeck: Shell) -> None:
    rankdeck("pools", "new", "lab", "n[1-3]", "alice@g7:2222", "--backend", "ssh", "--slots", "2")
    pool, local = rankdeck.json("pools")
    assert local == rankdeck.json("pools", "show", "local")
    assert local["path"] is None
    assert pool == rankdeck.json("pools", "show", "lab")
    assert pool["backend"] == "ssh"
    assert pool["slots"] == 2
    assert [node["name"] for node in pool["nodes"]] == ["n1", "n2", "n3", "g7"]
    assert pool["nodes"][3] == {
        "name": "g7",
        "host": "g7",
        "user": "alice",
        "port": 2222,
        "slots": 2,
        "gpus": None,
        "gpus_left_out": [],
    }
    _, lab, here = rankdeck("pools").stdout.splitlines()
    assert lab.split()[:4] == ["lab", "ssh", "4", "2"]
    assert here.split()[:5] == ["local", "local", "1", "auto", "127.0.0.1"]
    assert [line.split()[0] for line in rankdeck("pools", "show", "lab").stdout.splitlines()[-4:]] == [
        "n1",
        "n2",
        "n3",
        "g7",
    ]
    rankdeck("pools", "remove", "lab")
    assert rankdeck.json("pools") == [local]
    rankdeck("pools", "new", "local", "127.0.0.[1-2]", "--backend", "local")
    (own,) = rankdeck.json("pools")
    assert len(own["nodes"]) == 2


def test_a_profile_is_made_shown_changed_and_copied(rankdeck: Shell) -> None:
    rankdeck(
        "profiles", "new", "resnet", "--framework", "torchrun", "--script", "train.py", "--pool", "lab",
        "--nodes", "2",
        "--set", "env.NCCL_DEBUG=INFO", "--", "--epochs", "50", "--local_rank=$LOCAL_RANK",
    )  # fmt: skip
    profile = rankdeck.json("profiles", "show", "resnet")
    assert profile["args"] == ["--epochs", "50", "--local_rank=$LOCAL_RANK"]
    assert (profile["framework"], profile["script"], profile["pool"], profile["nodes"]) == (
        "torchrun",
        "train.py",
        "lab",
        2,
    )
    assert profile["env"] == {"NCCL_DEBUG": "INFO"}
    file = rankdeck.folder / "config/profiles/resnet.toml"
    file.write_text("# mine\n" + file.read_text())
    rankdeck("profiles", "edit", "resnet", "--set", "nodes=3")
    rankdeck("profiles", "copy", "resnet", "other")
    copy = (rankdeck.folder / "config/profiles/other.toml").read_text()
    assert copy.startswith("# mine\n")
    assert "nodes = 3" in copy
    assert [profile["name"] for profile in rankdeck.json("profiles")] == ["other", "resnet"]
    assert "# mine" in rankdeck("profiles", "show", "resnet").stdout


def test_what_can_not_be_saved_is_not(rankdeck: Shell) -> None:
    done = rankdeck("profiles", "new", "x", "--framework", "torchrn", "--script", "a.py", status=2)
    assert 'did you mean "torchrun"?' in done.stderr
    assert not (rankdeck.folder / "config/profiles/x.toml").exists()
    rankdeck.save_pool("two")
    assert "is there already" in rankdeck("pools", "new", "two", "n1", status=2).stderr
    assert "no `=`" in rankdeck("pools", "edit", "two", "--set", "slots", status=2).stderr
    rankdeck("pools", "edit", "two", "--set", "slots=0", status=2)
    assert "slots = 2" in (rankdeck.folder / "config/pools/two.toml").read_text()


def test_an_editor_is_opened_and_its_result_checked(rankdeck: Shell) -> None:
    rankdeck.save_pool("two")
    rankdeck("pools", "edit", "two", EDITOR="sed -i s/slots.=.2/slots=4/")
    assert rankdeck.json("pools", "show", "two")["slots"] == 4
    done = rankdeck("pools", "edit", "two", VISUAL="sed -i s/slots/slot/", status=2)
    assert "two.toml:3:" in done.stderr
    assert "did you mean" in done.stderr
    assert "can't be started" in rankdeck("pools", "edit", "two", EDITOR="/no/such/editor", status=2).stderr
    assert "ended with status 1" in rankdeck("pools", "edit", "two", EDITOR="false", status=2).stderr
    assert "neither VISUAL nor EDITOR" in rankdeck("pools", "edit", "two", status=2).stderr


def test_one_broken_file_does_not_hide_the_others(rankdeck: Shell) -> None:
    rankdeck.save_pool("good")
    rankdeck.write("config/pools/bad.toml", 'backend = "shh"\nnodes = ["n1"]\n')
    done = rankdeck("pools", status=2)
    assert "good" in done.stdout
    assert "bad.toml:1:" in done.stderr
    assert '"local", "ssh"' in done.stderr


def test_files_saved_on_windows_are_read(rankdeck: Shell) -> None:
    raw = '\ufeff# saved elsewhere\r\nbackend = "local"\t\r\n\tnodes = ["127.0.0.1"]\r\n'.encode()
    path = rankdeck.write("config/pools/win.toml", "")
    path.write_bytes(raw)
    assert [node["name"] for node in rankdeck.json("pools", "show", "win")["nodes"]] == ["127.0.0.1"]


def test_a_repository_s_own_files_win(rankdeck: Shell) -> None:
    rankdeck.save_pool("two")
    rankdeck.write(".rankdeck/pools/two.toml", 'backend = "local"\nslots = 7\n')
    assert rankdeck.json("pools", "show", "two")["slots"] == 7


def test_unknown_names_are_answered_with_the_known(rankdeck: Shell) -> None:
    rankdeck.save_pool("lab")
    done = rankdeck("pools", "show", "lap", status=2)
    assert "did you mean 'lab'" in done.stderr
    for verb in [("copy", "lap", "x"), ("edit", "lap"), ("remove", "lap")]:
        rankdeck("pools", *verb, status=2)
