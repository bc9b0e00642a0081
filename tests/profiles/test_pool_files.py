"""Pools read from files, node ranges and host files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.files import load_pool
from rankdeck_profiles.model import BackendKind, PoolNode
from rankdeck_profiles.nodes import NodeSyntaxError, entries_of, expand, listed


def write(tmp_path: Path, text: str, name: str = "lab.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def names(*entries: str) -> list[str]:
    return [node.name for node in expand(entries)]


def test_ranges_users_and_ports():
    assert expand(["gpu[001-003]", "alice@gpu007:2222"]) == (
        PoolNode("gpu001", "gpu001"),
        PoolNode("gpu002", "gpu002"),
        PoolNode("gpu003", "gpu003"),
        PoolNode("gpu007", "gpu007", "alice", 2222),
    )
    assert names("n[2,1,10-12/2]") == ["n2", "n1", "n10", "n12"]
    assert names("b", "a") == ["b", "a"]
    assert names("r[1-2]n[0-1]") == ["r1n0", "r1n1", "r2n0", "r2n1"]
    assert names("127.0.0.[1-2]") == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("k227-032 k229-002", "k227-032 k229-002"),
        ("k257-[011-012]", "k257-011 k257-012"),
        ("k238-[062,104]", "k238-062 k238-104"),
        ("gpu-[001-003,007]-ib0", "gpu-001-ib0 gpu-002-ib0 gpu-003-ib0 gpu-007-ib0"),
        (
            "z1r02c03s[10-11,14]opa z1r02c05s[12-13]",
            "z1r02c03s10opa z1r02c03s11opa z1r02c03s14opa z1r02c05s12 z1r02c05s13",
        ),
        ("rack[0-1]_blade[0-1]", "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1"),
        ("foo-[10-11]-[01-02]", "foo-10-01 foo-10-02 foo-11-01 foo-11-02"),
        ("host_d[099-101]", "host_d099 host_d100 host_d101"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("node1 qn-d[003-004,006] node5", "node1 qn-d003 qn-d004 qn-d006 node5"),
        ("fv0[01,11,21,42]", "fv001 fv011 fv021 fv042"),
        ("fcx[0001-0003] fcx0999", "fcx0001 fcx0002 fcx0003 fcx0999"),
        ("xpn-m11-16 n03d", "xpn-m11-16 n03d"),
        ("gpu-[17-18].cluster.example.org", "gpu-17.cluster.example.org gpu-18.cluster.example.org"),
        ("worker.1.example.org worker.2.example.org", "worker.1.example.org worker.2.example.org"),
    ],
)
def test_names_as_real_clusters_have_them(entries, expected):
    assert names(*entries.split()) == expected.split()


def test_the_last_range_of_a_name_counts_fastest():
    made = names("room[1-3]-rack[1-10]-node[1-18]")
    assert len(made) == 540
    assert (made[17], made[18], made[-1]) == (
        "room1-rack1-node18",
        "room1-rack2-node1",
        "room3-rack10-node18",
    )


def test_blanks_around_an_entry_are_no_part_of_it():
    assert names(" gpu-[001-002]\n") == ["gpu-001", "gpu-002"]


def test_ipv6_addresses_of_all_shapes():
    assert expand(
        ["2001:db8:0:150e::3000:1", "[2001:db8::2]:2222", "trainer@[2001:db8::3]", "fe80::1%ib0"]
    ) == (
        PoolNode("2001:db8:0:150e::3000:1", "2001:db8:0:150e::3000:1"),
        PoolNode("2001:db8::2", "2001:db8::2", None, 2222),
        PoolNode("2001:db8::3", "2001:db8::3", "trainer"),
        PoolNode("fe80::1%ib0", "fe80::1%ib0"),
    )


def test_ipv6():
    assert expand(["[fe80::7]", "bob@[fe80::8]:22", "::1"]) == (
        PoolNode("fe80::7", "fe80::7"),
        PoolNode("fe80::8", "fe80::8", "bob", 22),
        PoolNode("::1", "::1"),
    )


def test_one_host_with_several_ports_is_several_nodes():
    assert names("localhost:2201", "localhost:2202", "x:22") == ["localhost:2201", "localhost:2202", "x"]


@pytest.mark.parametrize("entries", [["n1", "n1"], ["n[1-3]", "alice@n2"], ["a:22", "b@a:22"]])
def test_a_node_listed_twice_is_refused_by_name(entries):
    with pytest.raises(PoolError, match=r"listed more than once: (n1|n2|a)\n"):
        expand(entries)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " ",
        "n1 slots=0",
        "n1 slots=x",
        "n1 gpus=",
        "n1 gpus=a",
        "n1 gpus=3-1",
        "a b",
        "a,b",
        "n[1-",
        "n[3-1]",
        "n[1-2]!n[1-4]",
        "n[1-2]!",
        "!n1",
        "n1!!n2",
        "n1,n2!n2",
        "alice@n[1-2]!n1",
        "n[1-2]:22!n1",
        "n[1-2]!n[0-999999999]",
        "n1 slots=4 slots=5",
        "n1 gpus=1 gpus=^2",
        "n" * 254,
        f"{'n' * 252}[1-12]",
        "n*",
        "-oProxyCommand=x",
        "n1:0",
        "n1:99999",
        "n1:ssh",
        "n1:",
        "a@b@c d",
        "[n1]",
        "[::zz]",
        "1:2:3",
        "n[0-999999999]",
        "$(id)",
        "-x@n1",
        "n;ls",
        "n\n2",
    ],
)
def test_what_is_no_node_is_refused(entry):
    with pytest.raises(NodeSyntaxError) as caught:
        expand([entry])
    assert caught.value.entry == entry


@pytest.mark.parametrize(
    "expression",
    [
        "n[1-9]!n3",
        "n[1-9]!n[3-4]!n9",
        "n[1-9]&n[4-20]",
        "n[1-5]^n[4-8]",
        "n[1-9]!n[2-6]^n[5-7]&n[1-6]",
        "n[08-11]!n8",
        "r[1-2]n[1-3]&r2n[2-9]",
    ],
)
def test_operators_between_sets_mean_what_they_mean_to_clustershell(expression):
    theirs = set(NodeSet(expression, resolver=RESOLVER_NOGROUP))
    assert {node.name for node in expand([expression])} == theirs
    assert theirs


def test_what_operators_leave_is_in_the_order_written():
    assert [node.name for node in expand(["n[9,1-3]!n2 slots=4"])] == ["n9", "n1", "n3"]
    assert [node.name for node in expand(["n[1-3].lan!n2"])] == ["n1.lan", "n3.lan"]
    assert [node.name for node in expand(["n[1-2]!n2.lan^n3"])] == ["n1", "n3"]
    assert [node.name for node in expand(["n[1-2].lan!n2.org"])] == ["n1.lan", "n2.lan"]
    assert expand(["n[1-2]!n2 slots=4"]) == (PoolNode("n1", "n1", slots=4),)
    with pytest.raises(NodeSyntaxError, match="no node is left"):
        expand(["n1!n1"])


def test_group_configuration_of_the_machine_is_not_read(tmp_path):
    # A configuration that names a source which would leave a mark if it were asked.
    conf = tmp_path / "clustershell"
    conf.mkdir()
    (conf / "groups.conf").write_text(
        f"[Main]\ndefault: x\n[x]\nmap: touch {tmp_path}/asked\nlist: touch {tmp_path}/asked\n"
    )
    code = "from rankdeck_profiles.nodes import expand; print(len(expand(['n[1-3]'])))"
    env = {"CLUSTERSHELL_CFGDIR": str(conf), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=60, check=True)
    assert done.stdout.strip() == b"3"
    assert not (tmp_path / "asked").exists()


def test_a_pool(tmp_path):
    pool = load_pool(write(tmp_path, 'backend = "ssh"\nnodes = ["n[1-2]"]\nslots = 8\ninterface = "ib0"\n'))
    assert (pool.name, pool.backend, pool.slots, pool.interface) == ("lab", BackendKind.SSH, 8, "ib0")
    assert [node.name for node in pool.nodes] == ["n1", "n2"]


def test_local_without_nodes_is_this_machine(tmp_path):
    pool = load_pool(write(tmp_path, 'backend = "local"\n'))
    assert [node.name for node in pool.nodes] == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('nodes = ["n1"]\n', "lab.toml: `backend` is missing", '"local", "ssh"'),
        (
            'backend = "slurm"\n',
            'lab.toml:1: backend = "slurm" is not available in this version',
            '"local", "ssh"',
        ),
        (
            'backend = "shh"\n',
            'lab.toml:1: backend = "shh" is not known; did you mean "ssh"?',
            '"local", "ssh"',
        ),
        ('backend = "ssh"\n', "lab.toml: the pool has no nodes", "nodes ="),
        ('backend = "ssh"\nnodes = []\n', "lab.toml:2: the pool has no nodes", "nodes ="),
        ('backend = "local"\nnodes = []\n', "lab.toml:2: the pool has no nodes", "nodes ="),
        ('backend = "ssh"\nnodes = "n1"\n', 'lab.toml:2: nodes = "n1"', "a list of text"),
        ('backend = "ssh"\nnodes = [\n"n1",\n"n[2-"]\n', 'lab.toml:4: nodes: "n[2-"', ""),
        ('backend = "ssh"\nnodes = ["n1", "n1"]\n', "lab.toml:2: nodes: listed more than once: n1", "once"),
        (
            'backend = "ssh"\nnodes = ["n1"]\nslot = 8\n',
            "lab.toml:3: unknown key `slot`; did you mean `slots`?",
            "slots",
        ),
        ('backend = "ssh"\nnodes = ["n1"]\nslots = 0\n', "lab.toml:3: slots = 0", "1 to 4096"),
        (
            'backend = "ssh"\nnodes = ["n1"]\nslots = 9000000000000000000\n',
            "lab.toml:3: slots = 9000000000000000000",
            "1 to 4096",
        ),
        ('backend = "ssh"\nnodes = 9e18\n', "lab.toml:2: nodes = 9e18", "a list of text"),
        ('backend = "ssh"\nhostfile = ""\n', 'lab.toml:2: hostfile = ""', "the path of a host file"),
        ('backend = "ssh"\nnodes = ["n1"]\ninterface = ""\n', "lab.toml:3: interface", "ib0"),
        (
            'backend = "local"\nnodes = ["localhost"]\n',
            'lab.toml:2: "localhost" is no node of the local',
            "127.0.0.1",
        ),
        (
            'backend = "local"\nnodes = ["10.0.0.1"]\n',
            'lab.toml:2: "10.0.0.1" is no node of the local',
            "127.0.0.1",
        ),
        ('backend = "local"\nnodes = ["127.0.0.1:22"]\n', 'lab.toml:2: "127.0.0.1" is no node', "127.0.0.1"),
        ('backend = "local"\nnodes = ["127.0.0.1", "127.0.0.1"]\n', "listed more than once: 127.0.0.1", ""),
        ('backend = "ssh"\nhostfile = "nowhere"\n', "lab.toml:2: hostfile ", ""),
    ],
)
def test_a_wrong_pool_is_refused(tmp_path, text, message, hint):
    with pytest.raises(PoolError) as caught:
        load_pool(write(tmp_path, text))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_hostfile_is_found_beside_the_pool(tmp_path):
    (tmp_path / "hosts").write_text("# the lab\nn1 slots=4\r\nn2:4   # fast\n\nn3 slots=4\n")
    pool = load_pool(write(tmp_path, 'backend = "ssh"\nnodes = ["n0"]\nhostfile = "hosts"\n'))
    assert [node.name for node in pool.nodes] == ["n0", "n1", "n2", "n3"]
    assert pool.slots == 4


def test_slots_of_a_hostfile_are_each_nodes_own_where_they_differ(tmp_path):
    (tmp_path / "hosts").write_text("n1 slots=4\nn2 slots=8\n")
    assert load_pool(write(tmp_path, 'backend = "ssh"\nhostfile = "hosts"\nslots = 2\n')).slots == 2
    pool = load_pool(write(tmp_path, 'backend = "ssh"\nhostfile = "hosts"\n'))
    assert (pool.slots, [node.slots for node in pool.nodes]) == (None, [4, 8])


@pytest.mark.parametrize("line", ["n1 slots=x", "n1 slots=0", "n1:0", "n1 4", "n0"])
def test_a_wrong_line_of_a_hostfile_is_named_by_number(tmp_path, line):
    (tmp_path / "hosts").write_text(f"n0 slots=1\n{line}\n")
    with pytest.raises(PoolError, match=r"lab.toml:2: hostfile .*hosts: lines? (1 and )?2: "):
        load_pool(write(tmp_path, 'backend = "ssh"\nhostfile = "hosts"\n'))


def test_what_is_no_file_is_refused_as_hostfile_and_as_pool(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lab = write(tmp_path, 'backend = "ssh"\nhostfile = "pipe"\n')
    with pytest.raises(PoolError, match=r"lab.toml:2: hostfile .*pipe: .* named pipe \(FIFO\)"):
        load_pool(lab)
    with pytest.raises(PoolError, match=r"pipe: .* named pipe"):
        load_pool(pipe)
    lab.write_text('backend = "ssh"\nhostfile = "/dev/zero"\n')
    with pytest.raises(PoolError, match=r"lab.toml:2: hostfile /dev/zero: .* a device"):
        load_pool(lab)
    lab.write_text('backend = "ssh"\nhostfile = "."\n')
    with pytest.raises(PoolError, match=r"lab.toml:2: .* directory"):
        load_pool(lab)


def test_a_node_of_nodes_and_hostfile_is_refused_by_name(tmp_path):
    (tmp_path / "hosts").write_text("n1\nn2\n")
    with pytest.raises(PoolError, match="listed in nodes and in the host file: n2"):
        load_pool(write(tmp_path, 'backend = "ssh"\nnodes = ["n2"]\nhostfile = "hosts"\n'))


def test_what_stands_behind_an_entry_is_for_all_its_nodes():
    assert expand(["n[1-2] slots=4 gpus=0-1,3", "bob@n3:22 gpus=^1"]) == (
        PoolNode("n1", "n1", slots=4, gpus=(0, 1, 3)),
        PoolNode("n2", "n2", slots=4, gpus=(0, 1, 3)),
        PoolNode("n3", "n3", "bob", 22, hidden_gpus=(1,)),
    )


def test_a_node_that_one_range_names_twice_is_told():
    found = listed(["tux[2,1-2]"])
    assert [node.name for node in found.nodes] == ["tux2", "tux1"]
    assert found.notes == ('"tux[2,1-2]" names tux2 more than once; it is one node',)


@pytest.mark.parametrize(
    "entries",
    [
        ["n[1-4]"],
        ["n[9-11]", "n[08-09]"],
        ["n[2-3]", "n1"],
        ["bob@n[1-2]:22 slots=4", "n[3-4] slots=4", "n5"],
        ["r1n[1-3]", "r2n[1-3]"],
        ["[fe80::1]", "bob@[fe80::2]:22 slots=2", "n1"],
        ["n[1-2] gpus=0,2", "n3 gpus=^1"],
        ["w.[1-2].example.org"],
        ["192.0.2.[9-11]", "192.0.3.[9-10]"],
        ["localhost:2201", "localhost:2202"],
    ],
)
def test_nodes_written_as_entries_are_the_same_nodes_again(entries):
    assert entries_of(expand(entries)) == entries
    assert expand(entries_of(expand(entries))) == expand(entries)


def test_groups_of_the_site_are_looked_up_where_they_are_named(tmp_path):
    conf = tmp_path / "clustershell"
    conf.mkdir()
    (conf / "groups.conf").write_text(
        "[Main]\ndefault: mine\n[mine]\nmap: sed -n 's/^$GROUP:\\(.*\\)/\\1/p' $CFGDIR/lab\n"
    )
    (conf / "lab").write_text("gpu: g[1-3]\n")
    code = (
        "import sys; from rankdeck_profiles.nodes import expand\n"
        "from rankdeck_profiles.errors import PoolError\n"
        "try: print([node.name for node in expand(sys.argv[1:])])\n"
        "except PoolError as error: print(error)"
    )
    env = {"CLUSTERSHELL_CFGDIR": str(conf), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def asked(*entries: str) -> str:
        words = [sys.executable, "-c", code, *entries]
        return subprocess.run(
            words, env=env, capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()

    assert asked("@gpu slots=4", "n1") == "['g1', 'g2', 'g3', 'n1']"
    assert asked("@gpu!g2", "n1") == "['g1', 'g3', 'n1']"
    assert "no such group" in asked("n1!@gpus")
    assert "no such group" in asked("@gpus")
    assert '"@nowhere:gpu"' in asked("@nowhere:gpu")
    (conf / "groups.conf").write_text("nonsense\n")
    assert "groups.conf" in asked("@gpu")
    (conf / "groups.conf").unlink()
    if Path("/etc/clustershell/groups.conf").exists():
        assert "no such group" in asked("@nobody-has-this")
    else:
        # The package that Python's pip installs brings examples, whose @gpu nobody has.
        assert "is not here" in asked("@gpu")
