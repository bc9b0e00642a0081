"""What is asked on the way to a node, how often, and what becomes of the answers."""

import asyncio
import stat

import pytest
from asked import Person, asking_server
from open_sshd import OpenSshd, fingerprint, free_port, make_key, run
from opening import LIMIT, NODE, open_one, refused
from test_ssh_routes import with_jump

from rankdeck_backends import open_backend
from rankdeck_backends.asking import Accepted, Kind
from rankdeck_backends.base import NodeError, Step
from rankdeck_profiles.model import BackendKind, PoolNode


async def open_with(person: Person, *nodes: PoolNode, connect_timeout: float = 30.0):
    """Open nodes at once; gives (backend, what became of each)."""
    backend = open_backend(BackendKind.SSH, connect_timeout=connect_timeout, asker=person)
    async with asyncio.timeout(LIMIT):
        opened = await asyncio.gather(*(backend.open(n) for n in nodes or (NODE,)), return_exceptions=True)
    return backend, opened


async def close_all(backend, opened) -> None:
    async with asyncio.timeout(LIMIT):
        for each in opened:
            if not isinstance(each, BaseException):
                await each.close()
        await backend.close()


async def let_in(person: Person, *nodes: PoolNode) -> None:
    backend, opened = await open_with(person, *nodes)
    await close_all(backend, opened)
    for each in opened:
        if isinstance(each, BaseException):
            raise each
    assert person.answers == []


async def kept_out(person: Person, **options) -> NodeError:
    backend, opened = await open_with(person, **options)
    await close_all(backend, opened)
    assert isinstance(opened[0], NodeError), opened
    assert person.answers == []
    return opened[0]


# Host keys


async def test_an_accepted_host_key_is_saved_as_ssh_saves_it(sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    sshd.known_hosts = tmp_path / "new" / "known_hosts"
    sshd.write_config()
    person = Person(Accepted.FIRST)
    await let_in(person)
    (shown,) = person.asked[0]
    assert shown.fingerprint == fingerprint(sshd.host_key)
    assert shown.algorithm == "ssh-ed25519"
    assert shown.known_as == f"[127.0.0.1]:{sshd.port}"
    assert shown.saved_in == sshd.known_hosts
    assert shown.hop.title == "node n1"
    assert sshd.known_hosts.read_text() == sshd.known_line().rsplit(" ", 1)[0] + "\n"
    assert stat.S_IMODE(sshd.known_hosts.stat().st_mode) == 0o600
    assert stat.S_IMODE(sshd.known_hosts.parent.stat().st_mode) == 0o700
    await let_in(Person())  # it is known now
    run("ssh", "-F", str(sshd.ssh_config), "-o", "BatchMode=yes", "node", "true")


async def test_a_saved_key_keeps_the_file_as_it_is(sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    real = tmp_path / "real_known_hosts"
    real.write_text("other ssh-ed25519 AAAA")  # no newline at its end
    real.chmod(0o640)
    sshd.known_hosts.unlink()
    sshd.known_hosts.symlink_to(real)
    sshd.write_config("HashKnownHosts yes")
    await let_in(Person(Accepted.FIRST))
    first, second = real.read_text().splitlines()
    assert first == "other ssh-ed25519 AAAA"
    assert second.startswith("|1|")
    assert "127.0.0.1" not in second
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sshd.known_hosts.is_symlink()
    found = run("ssh-keygen", "-F", f"[127.0.0.1]:{sshd.port}", "-f", str(real))
    assert "ssh-ed25519" in found
    await let_in(Person())


async def test_a_file_that_cannot_be_written_keeps_nobody_out(sshd, stand_in_agent):
    stand_in_agent()
    sshd.known_hosts = sshd.home / "a-file" / "known_hosts"
    (sshd.home / "a-file").write_text("no folder")
    sshd.write_config()
    person = Person(Accepted.FIRST)
    backend, (first,) = await open_with(person)
    async with asyncio.timeout(LIMIT):
        second = await backend.open(NODE)  # accepted for as long as this process lives
    said = f"failed to add 127.0.0.1 to the list of known hosts ({sshd.known_hosts}: "
    assert first.note.startswith(said), first.note
    assert second.note == ""
    await close_all(backend, [first, second])
    assert len(person.asked) == 1


async def test_accepting_without_a_question_says_where_the_key_could_not_be_saved(sshd, stand_in_agent):
    stand_in_agent()
    sshd.known_hosts = sshd.home / "folder"
    sshd.known_hosts.mkdir()
    sshd.write_config("StrictHostKeyChecking accept-new")
    connection = await open_one()
    assert connection.note == (
        f"failed to add 127.0.0.1 to the list of known hosts ({sshd.known_hosts}: Is a directory); "
        "its key is trusted until rankdeck is left"
    )
    await connection.close()
    sshd.write_config("StrictHostKeyChecking accept-new", "UserKnownHostsFile /dev/null")
    connection = await open_one()  # as the config wants it: nothing to say
    assert connection.note == ""
    await connection.close()


async def test_a_host_key_that_is_not_accepted_keeps_out(sshd):
    sshd.known_hosts.write_text("")
    error = await kept_out(Person(Accepted.NONE))
    assert error.step is Step.HOST_KEY
    assert error.needs_person
    assert "you did not accept it" in error.what
    assert sshd.known_hosts.read_text() == ""


async def test_many_new_nodes_are_one_question(sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    others = [OpenSshd(tmp_path / f"other{n}").start() for n in range(3)]
    try:
        nodes = several(sshd, others)
        person = Person(Accepted.ALL)
        await let_in(person, *nodes)
        assert [shown.hop.node for shown in person.asked[0]] == ["n0", "n1", "n2", "n3"]
        assert len(sshd.known_hosts.read_text().splitlines()) == 4
        sshd.known_hosts.write_text("")
        person = Person(Accepted.FIRST, Accepted.NONE)
        backend, opened = await open_with(person, *nodes)
        await close_all(backend, opened)
        assert [isinstance(each, NodeError) for each in opened].count(True) == 3
        assert len(person.asked[1]) == 3
    finally:
        for other in others:
            other.stop()


def several(sshd, others) -> list[PoolNode]:
    """One config for all these servers, none of them known."""
    sshd.known_hosts.write_text("")
    text = ""
    for number, server in enumerate((sshd, *others)):
        server.known_hosts, server.client_key = sshd.known_hosts, sshd.client_key
        server.authorized.write_text(sshd.authorized.read_text())
        server.write_config(host=f"host{number}")
        text += server.ssh_config.read_text()
    sshd.ssh_config.write_text(text)
    return [PoolNode(f"n{number}", f"host{number}") for number in range(len(others) + 1)]


async def test_a_changed_key_is_never_asked_about(sshd, tmp_path):
    sshd.known_hosts.write_text(sshd.known_line(make_key(tmp_path / "other")))
    for setting in ("ask", "no", "accept-new", "off"):
        sshd.write_config(f"StrictHostKeyChecking {setting}")
        error = await kept_out(Person())
        assert "has changed" in error.what
        assert fingerprint(sshd.host_key) in error.what
    assert len(sshd.known_hosts.read_text().splitlines()) == 1


async def test_a_key_of_another_type_is_a_new_one(sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    sshd.known_hosts.write_text(sshd.known_line(make_key(tmp_path / "other", "ecdsa")))
    person = Person(Accepted.FIRST)
    await let_in(person)
    assert person.asked[0][0].other_types == "ecdsa-sha2-nistp256"


@pytest.mark.parametrize("setting", ["accept-new", "no", "off"])
async def test_new_keys_are_taken_without_a_word_where_the_config_says_so(sshd, stand_in_agent, setting):
    stand_in_agent()
    sshd.known_hosts.write_text("")
    sshd.write_config(f"StrictHostKeyChecking {setting}")
    await (await open_one()).close()  # nobody to ask
    assert "ssh-ed25519" in sshd.known_hosts.read_text()


@pytest.mark.parametrize("setting", ["StrictHostKeyChecking yes", "BatchMode yes"])
async def test_nothing_is_asked_where_the_config_says_so(sshd, setting):
    sshd.known_hosts.write_text("")
    sshd.write_config(setting)
    error = await kept_out(Person())
    assert error.step is Step.HOST_KEY


async def test_a_jump_host_is_named_by_hop_and_asked_about_once(sshd, stand_in_agent, tmp_path):
    """A chain whose second hop has its own port, user, key and known_hosts file, which does not know it."""
    stand_in_agent()
    second = OpenSshd(tmp_path / "second").start()
    try:
        sshd.write_config("ProxyJump jump1,jump2", host="node node1 node2")
        text = sshd.ssh_config.read_text()
        sshd.write_config(host="jump1")
        text += sshd.ssh_config.read_text()
        second.known_hosts.write_text("")
        second.write_config(host="jump2")
        sshd.ssh_config.write_text(text + second.ssh_config.read_text())
        person = Person(Accepted.FIRST)
        await let_in(person, PoolNode("a", "node1"), PoolNode("b", "node2"))
        ((shown,),) = person.asked
        assert shown.hop.label == "jump host jump2 (hop 2 of 3)"
        assert shown.known_as == f"[127.0.0.1]:{second.port}"
        assert second.log().count("Accepted publickey") == 1
        assert sshd.log().count("Accepted publickey") == 3  # jump1 once, and both nodes
    finally:
        second.stop()


# Passphrases


def lock_key(sshd, tmp_path, *, public: bool = True) -> None:
    sshd.client_key = make_key(tmp_path / "locked", passphrase="open sesame")
    sshd.authorized.write_text((tmp_path / "locked.pub").read_text())
    if not public:
        (tmp_path / "locked.pub").unlink()
    sshd.write_config(host="node node1 node2 node3")


@pytest.mark.parametrize("public", [True, False])
async def test_a_passphrase_is_asked_once_for_all_nodes(sshd, stand_in_agent, tmp_path, public):
    stand_in_agent()
    lock_key(sshd, tmp_path, public=public)
    person = Person(["wrong"], ["open sesame"])
    nodes = [PoolNode(f"n{n}", f"node{n}") for n in (1, 2, 3)]
    backend, opened = await open_with(person, *nodes)
    assert [question.kind for question in person.asked] == [Kind.PASSPHRASE, Kind.PASSPHRASE]
    assert str(sshd.client_key) in person.asked[0].text
    assert person.asked[0].note == ""
    assert "does not open" in person.asked[1].note
    # A connection that drops is made again without another question.
    async with asyncio.timeout(LIMIT):
        again = await backend.open(nodes[0])
    await close_all(backend, [*opened, again])
    assert len(person.asked) == 2


async def test_a_key_that_the_server_does_not_take_is_not_asked_for(sshd, tmp_path):
    lock_key(sshd, tmp_path)
    sshd.authorized.write_text("")
    error = await kept_out(Person())
    assert error.step is Step.AUTH
    assert f"keys offered: {sshd.client_key} (SHA256:" in error.what


async def test_three_wrong_passphrases_are_enough(sshd, tmp_path):
    lock_key(sshd, tmp_path)
    error = await kept_out(Person(["a"], ["b"], ["c"]))
    assert error.step is Step.AUTH
    sshd.write_config("NumberOfPasswordPrompts 1")
    await kept_out(Person(["a"]))


async def test_a_cancelled_passphrase_is_not_asked_for_again_at_once(sshd, tmp_path):
    lock_key(sshd, tmp_path)
    person = Person(None)
    backend, opened = await open_with(person, *(PoolNode(f"n{n}", f"node{n}") for n in (1, 2, 3)))
    await close_all(backend, opened)
    assert len(person.asked) == 1
    for error in opened:
        assert isinstance(error, NodeError)
        assert error.needs_person
        assert f"the passphrase of {sshd.client_key}" in error.what


async def test_a_user_certificate_of_an_encrypted_key_is_used(make_sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    server = make_sshd()
    authority = make_key(tmp_path / "authority")
    server.settings["TrustedUserCAKeys"] = f"{authority}.pub"
    server.start()
    lock_key(server, tmp_path)
    server.authorized.write_text("")
    user = run("id", "-un").strip()
    run("ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", user, f"{server.client_key}.pub")
    await let_in(Person(["open sesame"]))


# Passwords and whatever else a server asks


def config_for(sshd, port: int, *hosts: str) -> None:
    sshd.write_config(f"Port {port}", host=" ".join(hosts))
    sshd.known_hosts.write_text(sshd.known_line().replace(f":{sshd.port}", f":{port}") + sshd.known_line())


async def test_a_password_is_asked_for_and_asked_again(sshd, stand_in_agent):
    stand_in_agent()
    port = free_port()
    config_for(sshd, port, "node")
    async with asking_server(port, sshd.host_key, password="right") as logins:
        person = Person(["wrong"], ["right"])
        await let_in(person)
        assert [question.kind for question in person.asked] == [Kind.PASSWORD] * 2
        assert [question.note for question in person.asked] == ["", "That was not accepted."]
        assert not person.asked[0].prompts[0].echo
        assert len(logins) == 1
        error = await kept_out(Person(["a"], ["b"], ["c"]))
        assert "what was typed (3 answers) was not accepted for user" in error.what
        assert "the server takes: password" in error.what
        assert "key" not in error.hint
        assert "asked again" in error.hint


ROUNDS = (
    ("Cluster", "Two steps.", [("Password: ", False)], ["secret"]),
    ("", "A code was sent.", [("Code: ", False), ("Device name: ", True)], ["123456", "phone"]),
    ("", "Last login: yesterday", [], []),
)


async def test_prompts_are_passed_on_with_their_echo(sshd, stand_in_agent):
    stand_in_agent()
    port = free_port()
    config_for(sshd, port, "node")
    async with asking_server(port, sshd.host_key, rounds=ROUNDS):
        person = Person(["secret"], ["123456", "phone"])
        await let_in(person)
        first, second = person.asked
        assert first.kind is Kind.PROMPTS
        assert "Two steps." in first.text
        assert [(p.text, p.echo) for p in second.prompts] == [("Code: ", False), ("Device name: ", True)]


async def test_a_code_is_asked_for_once_for_all_nodes_behind_a_jump_host(sshd, stand_in_agent):
    stand_in_agent()
    port = free_port()
    with_jump(sshd)
    sshd.ssh_config.write_text(
        sshd.ssh_config.read_text().replace(
            f"Host gate\nHostName 127.0.0.1\nPort {sshd.port}", f"Host gate\nHostName 127.0.0.1\nPort {port}"
        )
    )
    sshd.known_hosts.write_text(sshd.known_line().replace(f":{sshd.port}", f":{port}") + sshd.known_line())
    async with asking_server(port, sshd.host_key, rounds=ROUNDS[1:2]):
        person = Person(["123456", "phone"])
        await let_in(person, PoolNode("a", "node1"), PoolNode("b", "node2"))
        assert person.asked[0].hop.label == "jump host gate (hop 1 of 2)"
        person = Person(None)
        backend, opened = await open_with(person, PoolNode("a", "node1"), PoolNode("b", "node2"))
        await close_all(backend, opened)
        assert len(person.asked) == 1
        for error in opened:
            assert error.needs_person
            assert "jump host gate (hop 1 of 2)" in error.what


async def test_a_slow_person_is_waited_for(sshd, stand_in_agent):
    stand_in_agent()
    port = free_port()
    config_for(sshd, port, "node")

    class Slow(Person):
        async def secrets(self, question):
            await asyncio.sleep(8)  # more than all the time a login of 2 s a step may take
            return await super().secrets(question)

    async with asking_server(port, sshd.host_key, password="right"):
        backend, opened = await open_with(Slow(["right"]), connect_timeout=2)
        await close_all(backend, opened)
        assert not isinstance(opened[0], BaseException), opened


async def test_a_server_that_does_not_wait_takes_its_question_back(sshd):
    port = free_port()
    config_for(sshd, port, "node")
    async with asking_server(port, sshd.host_key, password="right", login_timeout=2):
        person = Person(asyncio.Event())
        error = await kept_out(person)
        assert person.taken_back == 1
        assert error.needs_person
        assert "did not wait any longer" in error.what


async def test_closing_takes_questions_back(sshd):
    port = free_port()
    config_for(sshd, port, "node")
    async with asking_server(port, sshd.host_key, password="right"):
        person = Person(asyncio.Event())
        backend = open_backend(BackendKind.SSH, asker=person)
        opening = asyncio.create_task(backend.open(NODE))
        async with asyncio.timeout(LIMIT):
            while not person.open:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await backend.close()
        assert person.open == 0
        assert person.taken_back == 1


async def test_without_anybody_to_ask_the_methods_are_named(sshd):
    port = free_port()
    config_for(sshd, port, "node")
    async with asking_server(port, sshd.host_key, password="right", rounds=ROUNDS) as logins:
        error = await refused()
        assert error.step is Step.AUTH
        assert "keyboard-interactive" in error.what
        assert "password" in error.what
        assert sum(login.tries for login in logins) == 0
