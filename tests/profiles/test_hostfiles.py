"""Host files of every launcher and scheduler, as people have them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rankdeck_profiles import hostfiles
from rankdeck_profiles.hostfiles import Duplicates, Format, Hostfile, HostfileError
from rankdeck_profiles.nodes import entries_of, expand


def slots(found: Hostfile) -> dict[str, int | None]:
    assert not found.problems, [str(problem) for problem in found.problems]
    return {node.name: node.slots for node in found.nodes}


def said(found: Hostfile) -> str:
    return "\n".join(map(str, (*found.notes, *found.problems)))


def test_comments_blank_lines_and_indentation():
    text = (
        "\n   w-1 slots=2  \n\tw-2 slots=2\t# rack 3\n\n  localhost slots=1\n"
        "  192.0.2.10 slots=2\n # w-1 slots=3\n#\n"
    )
    found = hostfiles.read(text)
    assert slots(found) == {"w-1": 2, "w-2": 2, "localhost": 1, "192.0.2.10": 2}
    assert (found.format, found.slots, found.lines["w-2"]) == (Format.OPENMPI, 7, (3,))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("gpu-a01 slots=8\r\ngpu-a02 slots=8\r\n", "Windows line ends"),
        ("\ufeffgpu-a01 slots=8\ngpu-a02 slots=8", "byte order mark"),
        ("gpu-a01\u00a0slots=8\ngpu-a02 slots=8\u200b\n", "line 1: a character that can't be seen"),
        ("gpu-a01 slots=8\rgpu-a02 slots=8\r", "Windows line ends"),
    ],
)
def test_what_other_systems_leave_in_a_file_is_no_part_of_a_name(text, note):
    found = hostfiles.read(text)
    assert slots(found) == {"gpu-a01": 8, "gpu-a02": 8}
    assert note in said(found)


def test_a_plain_line_again_is_one_slot_more():
    found = hostfiles.read("a01\na01\na02\na01\n")
    assert slots(found) == {"a01": 3, "a02": 1}
    assert (found.format, found.lines["a01"]) == (Format.PBS, (1, 2, 4))


def test_a_host_a_line_without_repeats_says_nothing_of_slots():
    assert slots(hostfiles.read("a01\na02\n")) == {"a01": None, "a02": None}
    assert slots(hostfiles.read("a01\na02\n", form=Format.PBS)) == {"a01": 1, "a02": 1}


@pytest.mark.parametrize(
    ("text", "lines", "added", "first"),
    [
        ("a01\na01 slots=4\n", (1, 2), {"a01": 5}, {"a01": None}),
        ("w1 slots=2\nw2 slots=1\nw1 slots=1\n", (1, 3), {"w1": 3, "w2": 1}, {"w1": 2, "w2": 1}),
        ("w1:2\nw2:1\nw1:1\n", (1, 3), {"w1": 3, "w2": 1}, {"w1": 2, "w2": 1}),
    ],
)
def test_slots_of_one_host_on_several_lines_are_a_conflict_with_a_choice(text, lines, added, first):
    found = hostfiles.read(text)
    (problem,) = found.problems
    assert problem.lines == lines
    assert "--duplicates sum" in problem.fix
    with pytest.raises(HostfileError, match=f"lines {lines[0]} and {lines[1]}: "):
        found.checked()
    assert slots(hostfiles.read(text, duplicates=Duplicates.SUM)) == added
    assert slots(hostfiles.read(text, duplicates=Duplicates.FIRST)) == first


def test_deepspeed_refuses_a_host_that_is_there_twice():
    assert hostfiles.read("a\na\n", form=Format.DEEPSPEED).problems


def test_a_range_that_names_a_node_twice_is_one_node_and_told():
    found = hostfiles.read("tux[2,1-2]")
    assert list(slots(found)) == ["tux2", "tux1"]
    assert "tux2 is named 2 times; it is one node" in said(found)


def test_names_that_differ_after_the_first_dot_are_several_nodes():
    assert slots(hostfiles.read("worker.1.foo.example slots=2\nworker.2.foo.example slots=2\n")) == {
        "worker.1.foo.example": 2,
        "worker.2.foo.example": 2,
    }


def test_a_short_name_beside_the_same_with_its_domain_is_remarked_on():
    found = hostfiles.read("gpu01 slots=2\ngpu01.cluster.example.org slots=4\ngpu02 slots=2\n")
    assert slots(found) == {"gpu01": 2, "gpu01.cluster.example.org": 4, "gpu02": 2}
    assert "line 1: gpu01 and gpu01.cluster.example.org (line 2) may be one machine" in said(found)
    assert "gpu02 and" not in said(found)
    assert "one machine" not in said(hostfiles.read("10 slots=1\n10.0.0.1 slots=1\n"))


def test_ipv6_addresses():
    text = (
        "2001:db8:0:150e::3000:1 slots=4\n[2001:db8::2]:2222 slots=4\n"
        "trainer@[2001:db8::3] slots=2\nfe80::1%ib0\n"
    )
    found = hostfiles.read(text)
    assert not found.problems
    assert [(node.host, node.port, node.user) for node in found.nodes] == [
        ("2001:db8:0:150e::3000:1", None, None),
        ("2001:db8::2", 2222, None),
        ("2001:db8::3", None, "trainer"),
        ("fe80::1%ib0", None, None),
    ]


def test_user_and_port_are_what_they_say_and_a_bare_number_is_slots():
    found = hostfiles.read(
        "trainer@192.0.2.10 slots=2\na01 slots=4 port=2222\nssh://bob@a02:2200 slots=1\n192.0.2.79:512\n"
    )
    assert slots(found) == {"192.0.2.10": 2, "a01": 4, "a02": 1, "192.0.2.79": 512}
    assert [(node.user, node.port) for node in found.nodes] == [
        ("trainer", None),
        (None, 2222),
        ("bob", 2200),
        (None, None),
    ]
    assert "line 4: :512 was read as 512 slots" in said(found)
    assert "port=512" in said(found)


def test_what_stands_behind_a_user_and_host_is_a_port():
    """No launcher has users before its slots; ssh, scp and git have ports there."""
    found = hostfiles.read("alice@gpu01:2222\nbob@gpu02:22\n")
    assert found.format is Format.PLAIN
    assert [(node.host, node.user, node.port, node.slots) for node in found.nodes] == [
        ("gpu01", "alice", 2222, None),
        ("gpu02", "bob", 22, None),
    ]
    (problem,) = hostfiles.read("alice@gpu01:99999\n").problems
    assert "port 99999" in problem.text


def test_a_number_behind_a_colon_beside_slots_is_asked_about():
    (problem,) = hostfiles.read("n1:2222 slots=4\n").problems
    assert problem.lines == (1,)
    assert "port=2222" in problem.fix


def test_a_horovod_list():
    found = hostfiles.read("worker-0:2,worker-1:2")
    assert (found.format, slots(found)) == (Format.HOROVOD, {"worker-0": 2, "worker-1": 2})
    assert "read as 2 slots" in said(found)
    (problem,) = hostfiles.read("bob@worker-0:2,worker-1:2").problems
    assert '"bob@worker-0" is no host name to Horovod' in problem.text


def test_mpich_and_intel():
    found = hostfiles.read("n1:4 binding=user:0,1\nn2:4\nn3\n")
    assert (found.format, slots(found)) == (Format.MPICH, {"n1": 4, "n2": 4, "n3": None})
    (problem,) = hostfiles.read("n1:4\nn2 4\n").problems
    assert "line 2" in str(problem)
    assert problem.fix == "write n2:4"
    assert "binding=user:0,1 was skipped" in said(found)


def test_pbs():
    text = "a01.cluster.example.edu\n" * 4 + "a02.cluster.example.edu\n" * 4
    assert slots(hostfiles.read(text)) == {"a01.cluster.example.edu": 4, "a02.cluster.example.edu": 4}


@pytest.mark.parametrize(
    "text",
    [
        "batch01 1 a01 4 a02 4",
        'LSB_MCPU_HOSTS="batch01 1 a01 4 a02 4"\n',
        "export LSB_MCPU_HOSTS='batch01 1 a01 4 a02 4'",
        "LSB_HOSTS=batch01 a01 a01 a01 a01 a02 a02 a02 a02",
    ],
)
def test_lsf_with_its_launch_host_left_out(text):
    found = hostfiles.read(text)
    assert (found.format, slots(found)) == (Format.LSF, {"a01": 4, "a02": 4})
    assert [each.host for each in found.left_out] == ["batch01"]


def test_lsf_keeps_a_first_host_that_is_like_the_others():
    found = hostfiles.read("a01 1 a02 4 a03 4")
    assert slots(found) == {"a01": 1, "a02": 4, "a03": 4}
    assert "a01 has one slot" in said(found)
    assert slots(hostfiles.read("b1 1 a1 1")) == {"b1": 1, "a1": 1}


@pytest.mark.parametrize("text", ["5*a01 11*a02 16*a03", "5*a01:11*a02:16*a03", "5*a01\n11*a02\n16*a03\n"])
def test_lsf_execution_hosts(text):
    assert slots(hostfiles.read(text)) == {"a01": 5, "a02": 11, "a03": 16}


def test_grid_engine():
    found = hostfiles.read(
        "n1.x 4 all.q@n1.x UNDEFINED\nn2.x 2 all.q@n2.x <NULL>\nn1.x 4 gpu.q@n1.x UNDEFINED\n"
    )
    assert (found.format, slots(found)) == (Format.SGE, {"n1.x": 8, "n2.x": 2})
    assert "line 3: n1.x is there in several queues" in said(found)


@pytest.mark.parametrize(
    ("nodelist", "tasks", "expected"),
    [
        ("gpu[001-003],n7", "2(x3),1", {"gpu001": 2, "gpu002": 2, "gpu003": 2, "n7": 1}),
        ("gpu[1-2]", "8(x2)", {"gpu1": 8, "gpu2": 8}),
        ("gpu[1-2]", "1(x2)", {"gpu1": None, "gpu2": None}),
        ("n5", "", {"n5": None}),
    ],
)
def test_a_slurm_allocation(nodelist, tasks, expected):
    assert slots(hostfiles.read_slurm(nodelist, tasks)) == expected
    text = f"SLURM_JOB_NODELIST={nodelist}\n" + (f"SLURM_TASKS_PER_NODE={tasks}\n" if tasks else "")
    assert slots(hostfiles.read(text)) == expected


def test_slurm_counts_that_do_not_fit_are_told():
    for tasks in ("2(x3)", "2(x", "9(x99999999999)"):
        (problem,) = hostfiles.read_slurm("gpu[1-2]", tasks).problems
        assert "SLURM_TASKS_PER_NODE" in problem.text


@pytest.mark.parametrize(
    ("expression", "hosts"),
    [
        ("k227-032,k229-002", "k227-032 k229-002"),
        ("k257-[011-012]", "k257-011 k257-012"),
        ("gpu-[001-003,007]-ib0", "gpu-001-ib0 gpu-002-ib0 gpu-003-ib0 gpu-007-ib0"),
        (
            "z1r02c03s[10-11,14]opa,z1r02c04s[10-11]",
            "z1r02c03s10opa z1r02c03s11opa z1r02c03s14opa z1r02c04s10 z1r02c04s11",
        ),
        ("rack[0-1]_blade[0-1]", "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("node1,qn-d[003-004,006],node5", "node1 qn-d003 qn-d004 qn-d006 node5"),
        ("fv0[01,11,42]", "fv001 fv011 fv042"),
        (" gpu-[001-002]\n", "gpu-001 gpu-002"),
        ("gpu-[001-002], gpu-005", "gpu-001 gpu-002 gpu-005"),
        ("xpn-m11-16", "xpn-m11-16"),
    ],
)
def test_slurm_lists_of_real_clusters(expression, hosts):
    assert list(slots(hostfiles.read(expression))) == hosts.split()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("n1 slots=x", 'slots "x"'),
        ("n1 slots=0", "takes no ranks"),
        ("n1 slots=99999", "1 to 4096"),
        ("n1:0", "takes no ranks"),
        ("n1:ssh slots=1", "behind : is no number"),
        ("[ : slots=1", "not closed"),
        ("n1: slots=1", "behind : is no number"),
        ("n1 4", "slots=4"),
        ("n1 slots", '"slots" is not known'),
        ("n1 colour=red", '"colour" is not known'),
        ("n1 slots=1 port=0", "port 0"),
        ("n1 slots=1 port=x", 'port "x"'),
        ("n;ls slots=1", "';' can't be in one"),
        ("-oProxyCommand=x slots=1", "no host name"),
        ("n\u00e4 slots=1", "can't be in one"),
        ("a b@n1 slots=2", '"b@n1" is not known'),
        ("[::zz] slots=1", "no IPv6 address"),
        ("1:2:3 slots=1", "no IPv6 address"),
        ("n[3-1] slots=2", "counts down"),
        ("n[1- slots=2", "not closed"),
        ("n[0-99999999] slots=2", "more than"),
        ("$(id) slots=1", "no host name"),
        ("^n1 slots=1", "takes a host away"),
        ("@gpu", '"@gpu" is a site group; write it in the pool\'s nodes'),
        ("@racks:r1 slots=4", '"@racks:r1" is a site group'),
        ("n1 slots=4 slots=5", "both slots=4 and slots=5"),
        ("n1 slots=4 cpus=5", "both slots=4 and cpus=5"),
        ("n1 port=22 port=23", "both port=22 and port=23"),
        (f"{'n' * 254} slots=1", "has 254 characters; allowed in a host name: at most 253"),
        ("n1!n2 slots=1", "'!' can't be in one"),
    ],
)
def test_a_wrong_line_is_named_by_its_number_and_the_others_are_read(line, says):
    found = hostfiles.read(f"n0\n{line}\n\nn9 slots=3\n")
    (problem,) = found.problems
    assert problem.lines == (2,)
    assert says in f"{problem.text} {problem.fix}"
    assert [node.name for node in found.nodes] == ["n0", "n9"]


@pytest.mark.parametrize("form", list(Format))
def test_a_group_of_the_site_is_refused_by_line_in_every_format(form):
    (problem,) = hostfiles.read("@gpu", form=form).problems
    assert (problem.lines, '"@gpu" is a site group; write it in the pool\'s nodes' in problem.text) == (
        (1,),
        form is not Format.SGE,
    )


def test_the_same_word_twice_on_a_line_is_no_conflict():
    assert slots(hostfiles.read("n1 slots=4 slots=4\n")) == {"n1": 4}
    (problem,) = hostfiles.read("n1:2 user=a user=b\n", form=Format.MPICH).problems
    assert "both user=a and user=b" in problem.text


def test_the_longest_host_name_is_one():
    assert slots(hostfiles.read(f"{'n' * 253} slots=1\n")) == {"n" * 253: 1}
    (problem,) = hostfiles.read(f"{'n' * 254}:2,b:2", form=Format.HOROVOD).problems
    assert "at most 253" in problem.text


def test_nothing_in_it_is_told():
    for text in ("", "\n# a\n"):
        with pytest.raises(HostfileError, match="names no node"):
            hostfiles.read(text).checked()


def test_many_wrong_lines_make_a_short_message():
    with pytest.raises(HostfileError) as caught:
        hostfiles.read("n0 slots=1\n" + "n1 oops\n" * 50).checked()
    assert len(caught.value.message.splitlines()) == 9
    assert "and 42 more" in caught.value.message


@settings(max_examples=300, deadline=None)
@example("::%:", None)
@given(st.text(st.sampled_from("ab01[]-,:@=# \t\n\r%.*()x\ufeffslotpr/")), st.sampled_from([None, *Format]))
def test_no_text_breaks_it(text, form):
    found = hostfiles.read(text, form=form)
    names = [node.name for node in found.nodes]
    assert len(set(names)) == len(names)
    assert found.nodes or found.problems
    for name in names:
        assert name.isprintable()
        assert " " not in name
        assert name.count(":") != 1 or name.rpartition(":")[2].isdigit()
    # What is saved as a pool is what was understood.
    assert expand(entries_of(found.nodes)) == found.nodes


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}", fullmatch=True), st.integers(1, 64)),
        min_size=1,
        unique_by=lambda pair: pair[0],
    )
)
def test_every_format_gives_back_what_was_written(pairs):
    expected = dict(pairs)
    for text in (
        "".join(f"{name} slots={count}\n" for name, count in pairs),
        "".join(f"{name}:{count}\r\n" for name, count in pairs),
        "".join(f"{name} {count} all.q@{name} UNDEFINED\n" for name, count in pairs),
        "\n".join(f"{count}*{name}" for name, count in pairs),
    ):
        found = hostfiles.read(text)
        assert {n.name: n.slots for n in found.nodes} | {x.host: x.slots for x in found.left_out} == expected
