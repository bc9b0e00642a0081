"""mpirun command lines: for each family, and what stands in the way of one."""

import pytest
from plan_samples import facts, gpus, pool, profile

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import MpiFacts, MpiFamily, NodeFacts
from rankdeck_profiles.model import BackendKind
from rankdeck_profiles.planner import plan

OPEN4 = MpiFacts(MpiFamily.OPEN_MPI, "4.1.4", "/usr/bin/mpirun")
OPEN5 = MpiFacts(MpiFamily.OPEN_MPI, "5.0.6", "/usr/bin/mpirun")
MPICH = MpiFacts(MpiFamily.MPICH, "4.0.2", "/usr/bin/mpirun")
INTEL = MpiFacts(MpiFamily.INTEL, "2021.14", "/usr/bin/mpirun")


def made(*mpis, nodes=None, more=(), **asked):
    names = [f"n{n}" for n in range(1, len(mpis) + 1)]
    changes = more or [{}] * len(names)
    known = {
        name: facts(name, **{"gpus": gpus(2), "mpi": mpi, "uid": 1000, **change})
        for name, mpi, change in zip(names, mpis, changes, strict=True)
    }
    return plan(profile("mpi", **asked), pool(*(nodes or [f"n[1-{len(names)}]"])), known)


def words(plan_made):
    return plan_made.nodes[0].processes[0].launcher


def value(plan_made, *flag):
    line = words(plan_made)
    for at in range(len(line)):
        if line[at : at + len(flag)] == flag:
            return line[at + len(flag)]
    return None


def refused(*mpis, **more):
    with pytest.raises(PlanError) as caught:
        made(*mpis, **more)
    assert caught.value.hint
    return caught.value.message


def test_the_head_runs_mpirun_for_the_world_and_the_others_list_none():
    plan_made = made(OPEN4, OPEN4)
    head, other = plan_made.nodes
    assert head.processes[0].ranks == (0, 1, 2, 3)
    assert head.processes[0].local_ranks == (0, 1, 0, 1)
    assert (other.processes, other.ranks, other.cwd) == ((), (2, 3), "/w")
    assert other.rank_env["NODE_RANK"] == "1"
    assert "RANK" not in other.rank_env
    assert {"RANK", "LOCAL_RANK"} <= set(plan_made.reasons)


def test_hosts_are_data_addresses_with_slots():
    assert value(made(OPEN4, OPEN4), "--host") == "10.0.0.1:2,10.0.0.2:2"
    uneven = [{"gpus": gpus(1)}, {"gpus": gpus(3)}]
    assert value(made(MPICH, MPICH, more=uneven), "-hosts") == "10.0.0.1:1,10.0.0.2:3"
    assert value(made(OPEN4, OPEN4, procs_per_node=1), "--host") == "10.0.0.1:1,10.0.0.2:1"


def test_one_machine_needs_no_ssh():
    assert value(made(OPEN4), "--host") == "localhost:2"
    local = pool("127.0.0.[1-2]", backend=BackendKind.LOCAL, slots=2)
    plan_made = plan(profile("mpi"), local, None)
    assert value(plan_made, "--host") == "localhost:4"
    assert value(plan_made, "--mca", "btl_tcp_if_include") is None


def test_intel_counts_uneven_nodes_in_a_file():
    plan_made = made(INTEL, INTEL, more=[{"gpus": gpus(1)}, {"gpus": gpus(3)}])
    assert value(plan_made, "-machinefile") == "@FILES@/hosts"
    assert dict(plan_made.nodes[0].processes[0].files) == {"hosts": "10.0.0.1:1\n10.0.0.2:3\n"}
    assert value(made(INTEL, INTEL), "-ppn") == "2"


def test_ipv6_nodes_are_named():
    addresses = [{"address": "2001:db8::1"}, {"address": "2001:db8::2"}]
    assert value(made(OPEN4, OPEN4, more=addresses), "--host") == "n1:2,n2:2"
    unnamed = {name: facts(name, address=name, mpi=OPEN4) for name in ("2001:db8::1", "2001:db8::2")}
    with pytest.raises(PlanError, match="IPv6 address 2001:db8::1"):
        plan(profile("mpi"), pool("[2001:db8::1]", "[2001:db8::2]", slots=1), unnamed)


def test_ssh_asks_nothing_gives_up_in_time_and_takes_the_pools_port():
    plan_made = made(OPEN4, OPEN4, nodes=["n1", "n2:2222"], options={"ssh_args": "-i key"})
    assert value(plan_made, "--mca", "plm_rsh_args") == "-o BatchMode=yes -o ConnectTimeout=10 -p 2222 -i key"
    env = made(MPICH, MPICH).nodes[0].processes[0].env
    assert env["HYDRA_LAUNCHER_EXTRA_ARGS"] == "-o BatchMode=yes -o ConnectTimeout=10"
    mixed = made(OPEN4, OPEN4, OPEN4, nodes=["n1", "n2:2222", "bob@n3"])
    assert any("their" in text and "n2 2222, n3 22" in text for text in mixed.warnings)
    assert any("bob on n3" in text for text in mixed.warnings)


def test_interfaces_with_different_names_are_told_by_their_network():
    names = [{"interface": "eth0"}, {"interface": "enp3s0"}]
    plan_made = made(OPEN4, OPEN4, more=names)
    assert value(plan_made, "--mca", "btl_tcp_if_include") is None
    assert any("n1 eth0, n2 enp3s0" in text for text in plan_made.warnings)
    with_network = [{**name, "network": "10.0.0.0/24"} for name in names]
    assert value(made(OPEN4, OPEN4, more=with_network), "--mca", "oob_tcp_if_include") == "10.0.0.0/24"
    assert "-iface" not in words(made(MPICH, MPICH, more=with_network))


def test_open_mpi_5_speaks_prrte():
    plan_made = made(OPEN5, OPEN5, env={"OMPI_MCA_plm_rsh_args": "-v"})
    line = words(plan_made)
    assert not any(word.startswith(("plm_rsh", "oob_tcp")) for word in line)
    assert value(plan_made, "--prtemca", "prte_if_include") == "eth1"
    assert any("OMPI_MCA_plm_rsh_args in [env] has no effect" in text for text in plan_made.warnings)
    assert ("program", "/usr/bin/prted") in [(n.kind, n.value) for n in plan_made.nodes[1].needs]


def test_launchers_own_settings_of_the_user_reach_mpirun_and_the_library_path_does_not():
    plan_made = made(OPEN4, OPEN4, env={"OMPI_MCA_pml": "cm", "LD_LIBRARY_PATH": "/opt/conda/lib"})
    assert dict(plan_made.nodes[0].processes[0].env) == {"OMPI_MCA_pml": "cm"}
    for node in plan_made.nodes:
        assert node.rank_env["LD_LIBRARY_PATH"] == "/opt/conda/lib"


def test_many_hosts_are_reached_at_once():
    many = plan(profile("mpi"), pool("n[001-064]", slots=1), None)
    assert value(many, "--mca", "plm_rsh_num_concurrent") == "64"
    assert value(made(OPEN4, OPEN4), "--mca", "plm_rsh_num_concurrent") is None


def test_options_change_the_line():
    assert value(made(OPEN4, options={"bind": "core"}), "--bind-to") == "core"
    assert value(made(OPEN4, options={"transport": "ucx"}), "--mca", "pml") == "ucx"
    assert value(made(OPEN4, options={"transport": "auto"}), "--mca", "pml") is None
    assert words(made(OPEN4, options={"mpirun": "/opt/m/mpirun"}))[0] == "/opt/m/mpirun"
    intel = made(INTEL, INTEL, options={"bind": "socket"})
    assert intel.nodes[1].rank_env["I_MPI_PIN_DOMAIN"] == "socket"
    assert intel.nodes[1].rank_env["FI_PROVIDER"] == "tcp"
    with pytest.raises(PlanError, match=r"options\.bind"):
        made(OPEN4, options={"bind": "cores"})


def test_offline_open_mpi_4_is_assumed_and_said():
    plan_made = plan(profile("mpi"), pool("n[1-2]", slots=2), None)
    assert any("MPI family: Open MPI 4; n1, n2 not asked" in text for text in plan_made.assumed)
    assert words(plan_made)[0] == "mpirun"
    half = made(MPICH, None)
    assert any("MPI family: MPICH; n2 not asked" in text for text in half.assumed)


def test_different_families_are_refused():
    assert refused(OPEN4, MPICH) == "the nodes have different MPIs: Open MPI 4 on n1; MPICH on n2"
    assert "Open MPI 4 on n1; Open MPI 5 on n2" in refused(OPEN4, OPEN5)


def test_different_versions_and_places_are_warned_about():
    other = MpiFacts(MpiFamily.OPEN_MPI, "4.0.3", "/opt/ompi/bin/mpirun")
    plan_made = made(OPEN4, other)
    text = "\n".join(plan_made.warnings)
    assert "Open MPI 4.1.4 on n1; Open MPI 4.0.3 on n2" in text
    assert "/usr/bin/mpirun on n1; /opt/ompi/bin/mpirun on n2" in text
    assert words(plan_made)[:2] == ("mpirun", "--noprefix")


def test_a_node_without_mpirun_or_with_a_strange_one_is_named():
    none = MpiFacts(MpiFamily.NONE, note="mpirun is not in PATH (/usr/bin)")
    assert refused(OPEN4, none) == "node n2 has no mpirun: mpirun is not in PATH (/usr/bin)"
    strange = MpiFacts(MpiFamily.OTHER, path="/opt/mpt/mpirun", note="HPE MPT 2.27")
    assert "HPE MPT 2.27" in refused(strange)


def test_a_library_of_another_family_is_refused():
    mixed = MpiFacts(MpiFamily.OPEN_MPI, "4.1.4", "/usr/bin/mpirun", MpiFamily.MPICH, "4.1")
    assert "mpi4py of the profile's python loads MPICH 4.1" in refused(mixed)


def test_root_must_be_asked_for_with_open_mpi_alone():
    root = [{"uid": 0}]
    assert "root" in refused(OPEN4, more=root)
    allowed = made(OPEN5, more=root, options={"allow_root": True}).nodes[0].processes[0].env
    assert dict(allowed) == {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    for mpi in (MPICH, INTEL):
        assert not any("root" in word for word in words(made(mpi, more=root)))


def test_facts_of_mpi_survive_json():
    for mpi in (
        None,
        OPEN4,
        MpiFacts(MpiFamily.NONE, note="x"),
        MpiFacts(MpiFamily.MPICH, library=MpiFamily.OTHER),
    ):
        before = facts("n1", mpi=mpi, uid=0, network="10.0.0.0/8", software={"torch": "2.13.0"})
        assert NodeFacts.from_json(before.to_json()) == before
    strange = {**facts("n1").to_json(), "mpi": {"family": "bproc"}}
    assert NodeFacts.from_json(strange).mpi == MpiFacts(MpiFamily.OTHER)
