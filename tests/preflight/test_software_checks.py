"""Software checks: each row is a small change to a healthy node, and what must be said to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.cases import ASKED, Case, holds
from preflight.healthy import WHEEL, code, mpi, need, python, torch, with_cell
from preflight.recordings import changed
from rankdeck_profiles.readings import Readings

ENV = ("env",)
COMMAND = replace(ASKED, framework="command")
OLD = "/usr/local/nccl-2.18/lib/libnccl.so.2"
OFI = {"name": "libnccl-net-ofi.so", "path": "/opt/amazon/lib/libnccl-net-ofi.so", "state": "ok"}
HPCX = {"name": "libnccl-net.so", "path": "/opt/hpcx/lib/libnccl-net.so", "state": "ok"}
CONF = "/home/user/.nccl.conf"


def env(*lines: str) -> dict[tuple[str, ...], str]:
    return {ENV: "".join(f"{line}\n" for line in ("HOME=/home/user", "PATH=/usr/bin", *lines))}


def with_ofi(readings: Readings) -> Readings:
    return changed(readings, syscalls={"net_plugins": [OFI]})


def asked(**variables: str):
    return replace(ASKED, env=variables)


def compute_capability(readings: Readings) -> Readings:
    return with_cell(readings, 0, "compute_cap", "9.0")


NODES = [
    Case("run.needs", "pass", "all that the profile names is there"),
    Case(
        "run.needs",
        "fail",
        "/no/where: No such file or directory (workdir); python3 has no module torch",
        syscalls={
            "needs": [
                need("dir", "/no/where", "/no/where: No such file or directory", why="workdir"),
                need("module", "torch", "python3 has no module torch"),
            ]
        },
    ),
    Case(
        "run.needs",
        "fail",
        "setup line failed with status 1: module load x",
        syscalls={
            "needs": [need("setup", "module load x", "setup line failed with status 1: module load x\nx")]
        },
    ),
    Case("run.needs", "skip", "no profile was named", syscalls={"needs": None}),
    Case("sw.python", "pass", "Python 3.11.9 at /opt/venv/bin/python3"),
    Case("sw.python", "fail", "no python3 on this node", syscalls={"python": python(state="missing")}),
    Case("sw.python", "fail", "did not start in its time", syscalls={"python": python(state="timeout")}),
    Case(
        "sw.python",
        "warn",
        "within the 5 s that a launch waits",
        syscalls={"python": python(state="timeout"), "patience": 5.0},
    ),
    Case(
        "sw.python",
        "fail",
        "libpython3.11.so: cannot open",
        syscalls={"python": python(state="libpython3.11.so: cannot open")},
    ),
    Case("sw.python", "warn", "no python3", syscalls={"python": python(state="missing")}, asked=COMMAND),
    Case("sw.python", "skip", syscalls={"python": None}),
    Case("sw.torch", "pass", "torch 2.6.0+cu124"),
    Case("sw.torch", "pass", change=compute_capability),
    Case(
        "sw.torch",
        "pass",
        "which GPUs it is built for is not known",
        change=compute_capability,
        syscalls={"torch": torch(arch_list=[])},
    ),
    Case(
        "sw.torch",
        "fail",
        "no code for NVIDIA H100 80GB HBM3 (sm_90)",
        change=compute_capability,
        syscalls={"torch": torch(arch_list=["sm_70", "sm_80", "sm_86"])},
    ),
    Case("sw.torch", "pass", change=compute_capability, syscalls={"torch": torch(arch_list=["compute_80"])}),
    Case("sw.torch", "pass", change=compute_capability, syscalls={"torch": torch(arch_list=["sm_90a"])}),
    Case(
        "sw.torch",
        "fail",
        "sm_90",
        change=compute_capability,
        syscalls={"torch": torch(arch_list=["sm_100", "compute_80a"])},
    ),
    Case(
        "sw.torch",
        "fail",
        "GPU 1 (gfx942)",
        files={
            "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 304\ngfx_target_version 90402\n"
        },
        syscalls={"torch": torch(arch_list=["gfx90a", "gfx1100"])},
    ),
    Case(
        "sw.torch",
        "pass",
        files={
            "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 304\ngfx_target_version 90010\n"
        },
        syscalls={"torch": torch(arch_list=["gfx90a:sramecc+", "gfx1100"])},
    ),
    Case(
        "sw.torch",
        "fail",
        "cannot be loaded: libcudart.so.12",
        syscalls={"torch": torch(state="libcudart.so.12: not found")},
    ),
    Case("sw.torch", "skip", syscalls={"torch": {"state": "missing"}}),
    Case("sw.torch", "skip", syscalls={"torch": None}),
    Case(
        "sw.torch",
        "skip",
        "jax does without",
        syscalls={"torch": torch(state="broken")},
        asked=replace(ASKED, framework="jax"),
    ),
    Case("sw.code", "pass", "train.py is there"),
    Case("sw.code", "fail", "train.py is not there", syscalls={"code": code(state="ENOENT")}),
    Case("sw.code", "fail", "cannot be read (EACCES)", syscalls={"code": code(state="EACCES")}),
    Case("sw.code", "skip", "in time", syscalls={"code": code(state="timeout")}),
    Case("sw.code", "skip", syscalls={"code": None}),
    Case("sw.cuda-driver", "pass", "the driver offers CUDA 12.8"),
    Case(
        "sw.cuda-driver",
        "fail",
        "built for CUDA 13.0, the driver offers 12.8",
        syscalls={"torch": torch(cuda="13.0")},
    ),
    Case("sw.cuda-driver", "pass", syscalls={"torch": torch(cuda="12.9")}),
    Case("sw.cuda-driver", "fail", "10.2", syscalls={"torch": torch(cuda="10.2"), "cuda_driver": 10010}),
    Case(
        "sw.cuda-driver",
        "fail",
        "offers 12.4",
        syscalls={"torch": torch(cuda="13.0"), "cuda_driver": "missing"},
        commands={("nvidia-smi",): "| NVIDIA-SMI 550.90  Driver Version: 550.90  CUDA Version: 12.4 |\n"},
    ),
    Case("sw.cuda-driver", "skip", "which CUDA the driver offers", syscalls={"cuda_driver": "missing"}),
    Case("sw.cuda-driver", "skip", "not built for CUDA", syscalls={"torch": torch(cuda=None, hip="6.2")}),
    Case("sw.nccl-twice", "pass", "one NCCL: 2.27.3"),
    Case("sw.nccl-twice", "pass", syscalls={"nccl_libs": [f"{OLD} 2.27.3", f"{WHEEL} 2.27.3"]}),
    Case(
        "sw.nccl-twice",
        "warn",
        f"2.18.5 ({OLD})",
        syscalls={"nccl_libs": [f"{OLD} 2.18.5", f"{WHEEL} 2.27.3"]},
    ),
    Case(
        "sw.nccl-twice",
        "fail",
        "torch brings NCCL 2.27.3, but 2.18.5 is loaded",
        syscalls={"nccl_libs": [f"{OLD} 2.18.5", f"{WHEEL} 2.27.3"], "torch_nccl": "2.18.5"},
    ),
    Case("sw.nccl-twice", "pass", syscalls={"nccl_libs": [f"{OLD} ?", f"{WHEEL} 2.27.3"]}),
    Case("sw.nccl-twice", "skip", "no libnccl.so.2", syscalls={"nccl_libs": []}),
    Case("sw.nccl-twice", "skip", syscalls={"nccl_libs": None}),
    Case("sw.net-plugin", "pass", "none is asked for"),
    Case("sw.net-plugin", "pass", "libnccl-net-ofi.so", syscalls={"net_plugins": [OFI]}),
    Case("sw.net-plugin", "fail", "NCCL_NET_PLUGIN is ofi", asked=asked(NCCL_NET_PLUGIN="ofi")),
    Case("sw.net-plugin", "pass", asked=asked(NCCL_NET_PLUGIN="ofi"), syscalls={"net_plugins": [OFI]}),
    Case(
        "sw.net-plugin",
        "pass",
        asked=asked(NCCL_NET_PLUGIN="libnccl-net-ofi.so"),
        syscalls={"net_plugins": [OFI]},
    ),
    Case("sw.net-plugin", "pass", asked=asked(NCCL_NET_PLUGIN="none")),
    Case("sw.net-plugin", "fail", "NCCL_NET is AWS Libfabric", asked=asked(NCCL_NET="AWS Libfabric")),
    Case("sw.net-plugin", "pass", asked=asked(NCCL_NET="IB")),
    Case(
        "sw.net-plugin",
        "warn",
        "does not load: libfabric.so.1",
        syscalls={"net_plugins": [{**OFI, "state": "libfabric.so.1: cannot open"}]},
    ),
    Case("sw.net-plugin", "skip", syscalls={"net_plugins": None}),
    Case("sw.mpi", "pass", "openmpi 4.1.6 at /usr/bin/mpirun"),
    Case(
        "sw.mpi",
        "fail",
        "mpirun: not in PATH",
        syscalls={"mpi": {"note": "mpirun: not in PATH", "daemon": None}},
    ),
    Case(
        "sw.mpi",
        "fail",
        "mpirun: not found",
        syscalls={"mpi": {"family": "none", "note": "mpirun: not found"}},
    ),
    Case("sw.mpi", "fail", "not on PATH", syscalls={"mpi": mpi(daemon=None, path="/opt/ompi/bin/mpirun")}),
    Case("sw.mpi", "pass", syscalls={"mpi": mpi(daemon=None)}),
    Case(
        "sw.mpi",
        "pass",
        "another family: HPE MPT",
        syscalls={"mpi": {"family": "other", "note": "HPE MPT 2.25"}},
    ),
    Case("sw.mpi", "skip", syscalls={"mpi": None}),
    Case("sw.env", "pass", "nothing is set"),
    Case("sw.env", "pass", "does no harm", commands=env("NCCL_DEBUG=INFO", "NCCL_IB_TIMEOUT=22")),
    Case("sw.env", "skip", commands={ENV: None}),
    Case(
        "sw.env",
        "fail",
        "NCCL_IB_DISABLE=1 (the environment): NCCL leaves the 8 usable",
        commands=env("NCCL_IB_DISABLE=1"),
    ),
    Case("sw.env", "fail", f"NCCL_IB_DISABLE=1 ({CONF})", files={CONF: "NCCL_IB_DISABLE=1\n"}),
    Case("sw.env", "pass", commands=env("NCCL_IB_DISABLE=0"), files={CONF: "NCCL_IB_DISABLE=1\n"}),
    Case("sw.env", "fail", "the profile's [env]", asked=asked(NCCL_IB_DISABLE="1")),
    Case("sw.env", "fail", "any text as 0", commands=env("NCCL_P2P_DISABLE=true")),
    Case("sw.env", "fail", "any text as 0", commands=env("NCCL_IB_GID_INDEX=auto")),
    Case("sw.env", "fail", "the index of a key", commands=env("NCCL_IB_PKEY=0x801f")),
    Case("sw.env", "pass", commands=env("NCCL_IB_PKEY=1")),
    Case("sw.env", "fail", "names no interface of this node", commands=env("NCCL_SOCKET_IFNAME=eth0")),
    Case("sw.env", "fail", "names no interface", commands=env("NCCL_SOCKET_IFNAME==eno")),
    Case("sw.env", "fail", "names no interface", commands=env("NCCL_SOCKET_IFNAME=^lo,eno,ib,docker")),
    Case("sw.env", "pass", commands=env("NCCL_SOCKET_IFNAME=eth,eno")),
    Case("sw.env", "pass", commands=env("NCCL_SOCKET_IFNAME=^docker,lo")),
    Case("sw.env", "fail", "there is no interface eth0", commands=env("GLOO_SOCKET_IFNAME=eno1,eth0")),
    Case("sw.env", "fail", "there is no mlx5_9", commands=env("NCCL_IB_HCA==mlx5_0,mlx5_9")),
    Case("sw.env", "fail", "there is no mlx4", commands=env("NCCL_IB_HCA=mlx4")),
    Case("sw.env", "pass", commands=env("NCCL_IB_HCA=mlx5")),
    Case("sw.env", "pass", commands=env("NCCL_IB_HCA=^mlx5_9")),
    Case(
        "sw.env",
        "warn",
        "mlx5_1 is a prefix and takes mlx5_10",
        commands=env("NCCL_IB_HCA=mlx5_1"),
        files={"/sys/class/infiniband/mlx5_10/node_type": "1: CA\n"},
    ),
    Case("sw.env", "fail", "none of these is on this node", commands=env("UCX_NET_DEVICES=mlx4_0:1")),
    Case("sw.env", "pass", commands=env("UCX_NET_DEVICES=mlx5_0:1,eno1")),
    Case("sw.env", "warn", "is empty", commands=env("NCCL_IB_GID_INDEX=")),
    Case("sw.env", "warn", "does nothing: no blanks", files={"/etc/nccl.conf": "NCCL_IB_HCA = mlx5_1\n"}),
    Case("sw.env", "warn", "keeps NCCL from NVLink", commands=env("NCCL_P2P_DISABLE=1")),
    Case("sw.env", "pass", commands=env("NCCL_P2P_DISABLE=0")),
    Case("sw.env", "warn", "NCCL's own choice", commands=env("NCCL_ALGO=Ring")),
    Case("sw.env", "warn", "has no cuda_copy", commands=env("UCX_TLS=rc,sm")),
    Case("sw.env", "pass", commands=env("UCX_TLS=rc,sm,cuda_copy,self")),
    Case(
        "sw.env",
        "warn",
        "Open MPI 5 has no openib",
        commands=env("OMPI_MCA_btl=openib,self"),
        syscalls={"mpi": mpi(version="5.0.6")},
    ),
    Case("sw.env", "pass", commands=env("OMPI_MCA_btl=^openib"), syscalls={"mpi": mpi(version="5.0.6")}),
    Case("sw.env", "pass", commands=env("OMPI_MCA_btl=openib,self")),
]

POOLS = [
    Case("sw.python", "pass", "all nodes have Python 3.11.9"),
    Case("sw.python", "fail", "3.9.2 on n2", syscalls={"python": python(version="3.9.2")}),
    Case("sw.python", "warn", "3.9.2 on n2", syscalls={"python": python(version="3.9.2")}, asked=COMMAND),
    Case("sw.python", "warn", "3.11.2 on n2", syscalls={"python": python(version="3.11.2")}),
    Case("sw.python", "warn", "/usr on n2", syscalls={"python": python(prefix="/usr")}),
    Case("sw.python", "skip", syscalls={"python": None}, everywhere=True),
    Case("sw.torch", "pass", "torch 2.6.0+cu124 for CUDA 12.4"),
    Case(
        "sw.torch",
        "fail",
        "2.5.1+cu121 for CUDA 12.1 on n2",
        syscalls={"torch": torch(version="2.5.1+cu121", cuda="12.1")},
    ),
    Case("sw.torch", "fail", "not installed on n2", syscalls={"torch": {"state": "missing"}}),
    Case("sw.torch", "skip", syscalls={"torch": {"state": "missing"}}, everywhere=True),
    Case("sw.code", "pass"),
    Case("sw.code", "fail", "is not the same file everywhere", syscalls={"code": code(sha256="ef" * 32)}),
    Case("sw.code", "fail", "of different commits", syscalls={"code": code(git_head="12" * 20)}),
    Case("sw.code", "warn", "uncommitted changes on n2 only", syscalls={"code": code(git_dirty=True)}),
    Case("sw.code", "skip", syscalls={"code": None}, everywhere=True),
    Case("sw.nccl", "pass", "NCCL 2.27.3"),
    Case("sw.nccl", "fail", "2.21.5 on n2", syscalls={"torch_nccl": "2.21.5"}),
    Case("sw.nccl", "fail", "2.18.5 on n2", syscalls={"torch_nccl": None, "nccl_libs": [f"{OLD} 2.18.5"]}),
    Case("sw.nccl", "skip", syscalls={"torch_nccl": None, "nccl_libs": None}, everywhere=True),
    Case("sw.net-plugin", "pass", "none"),
    Case("sw.net-plugin", "fail", "on some nodes only; none on n1, n3", syscalls={"net_plugins": [OFI]}),
    Case("sw.net-plugin", "warn", "libnccl-net.so on n2", base=with_ofi, syscalls={"net_plugins": [HPCX]}),
    Case("sw.net-plugin", "skip", syscalls={"net_plugins": None}, everywhere=True),
    Case("sw.mpi", "pass", "openmpi 4.1.6"),
    Case("sw.mpi", "fail", "openmpi 5.0 on n2", syscalls={"mpi": mpi(version="5.0.6")}),
    Case("sw.mpi", "fail", "mpich 4.1 on n2", syscalls={"mpi": mpi(family="mpich")}),
    Case("sw.mpi", "warn", "4.1.4 on n2", syscalls={"mpi": mpi(version="4.1.4")}),
    Case("sw.mpi", "skip", syscalls={"mpi": None}, everywhere=True),
    Case("sw.env", "pass"),
    Case(
        "sw.env",
        "warn",
        "NCCL_BUFFSIZE differs: not set on n1, n3; 8388608 on n2",
        commands=env("NCCL_BUFFSIZE=8388608"),
    ),
    Case("sw.env", "pass", commands=env("NCCL_BUFFSIZE=8388608"), everywhere=True),
    Case("sw.env", "pass", commands=env("NCCL_SOCKET_IFNAME=eno1", "NCCL_DEBUG=INFO")),
    Case("sw.env", "skip", commands={ENV: None}, everywhere=True),
]


@pytest.mark.parametrize("case", NODES, ids=str)
def test_node(case: Case) -> None:
    holds(case, case.on_node())


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pool(case: Case) -> None:
    holds(case, case.over_pool())
