"""The commands that preflight runs: each with a time limit, all side by side.

Which and why: docs/preflight.md. Those that are not installed are not run, and not told.
"""

import json
import os

from . import gpus, limited, network
from .encoding import printable, raw, text

GPU_LIMIT = 20.0
"""Seconds for nvidia-smi. Without persistence mode it wakes every GPU first; one that is silent for so long
waits for a GPU that hangs."""
_LIMIT = 2.0
_TOOL_LIMIT = 5.0
"""Seconds for tools that ask firmware, or are scripts that ask a package manager."""
_LONGEST = 400 << 10
"""Bytes of one output that are told: all of them together must fit into one frame."""
_REFUSALS = 12
"""How many fields nvidia-smi may refuse, one at a time."""

_BASE = (
    "index,uuid,pci.bus_id,name,driver_version,memory.total,memory.used,utilization.gpu,temperature.gpu,"
    "mig.mode.current,compute_mode,persistence_mode,ecc.mode.current,ecc.errors.uncorrected.volatile.total,"
    "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
)
_FURTHER = (
    "index,vbios_version,compute_cap,fabric.state,fabric.status,fabric.cliqueId,fabric.clusterUuid,"
    "remapped_rows.pending,remapped_rows.failure,gpu_recovery_action,clocks_event_reasons.active"
)
_OLDER = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
"""Fields by the names they had before driver 535.54."""
_QUERY = "--query-gpu="
_SBIN = (b"/usr/sbin", b"/sbin", b"/usr/bin", b"/bin", b"/opt/amazon/efa/bin")
_PROGRAMS = (
    b"busctl dmesg fi_info ibv_devinfo ip journalctl nv-fabricmanager nvidia-smi ofed_info rdma systemctl"
).split()
_SHOWN = (
    b"NCCL_ UCX_ OMPI_ PMIX_ PRTE_ GLOO_ TP_ FI_ RDMAV_ HOROVOD_ MASTER_ HSA_ CUDA_ "
    b"PATH LD_LIBRARY_PATH LD_PRELOAD TMPDIR"
).split()
"""The variables that are told: names that end in `_` are beginnings."""


class Commands:
    """What is run, and then what came of it.

    Attributes:
        found: `[{"argv", "rc", "stdout", "stderr"}]`; rc None: it did not end in time.
        calls: what other tools answered that belongs to `syscalls`.
    """

    def __init__(self, environment, allowance):
        """Begin; `children` are to be finished with `ended` told of each.

        Args:
            environment: {NAME: value} as bytes, in which they run.
            allowance: `limited.Allowance`: how long they may take.
        """
        self._allowance = allowance
        self.found = [_command(["env"], 0, _shown(environment), "")]
        self.calls = {}
        self.children = []
        self._environment = environment
        self._asked = {}
        self._refused = 0
        self._paths = _found(environment)
        for words, seconds in _wanted(b"nvidia-smi" in self._paths):
            self._begin(words, allowance.of(seconds))
        if ["ip", "-json", "addr"] not in self._asked.values():
            self.found.append(_command(["ip", "-json", "addr"], 0, _interfaces(), ""))

    def ended(self, child):
        """Take what a child has written. Returns one more child, where nvidia-smi refused a field."""
        words = self._asked.pop(child.pid, None)
        if words is None:
            return None
        out, err = printable(child.out[:_LONGEST]), printable(child.err[:_LONGEST])
        less = _without_refused(words, out + err) if self._refused < _REFUSALS else None
        if less is not None:
            self._refused += 1
            return self._begin(less, self._allowance.following(GPU_LIMIT))
        if words == ["ip", "-json", "addr"] and child.status != 0:  # RHEL 7's has no -json
            out, err, child.status = _interfaces(), "", 0
        if words[0] == "busctl":
            if out.split()[:1] == ["b"]:
                self.calls["kill_user_processes"] = out.split()[1:] == ["true"]
            return None
        if words[0] == "dmesg":  # a megabyte of what else the kernel said
            out = "".join(line + "\n" for line in out.splitlines() if "Xid" in line)
        self.found.append(_command(words, child.status, out, err))
        return None

    def _begin(self, words, seconds):
        path = self._paths.get(raw(words[0]))
        if path is None:
            return None
        argv = [path] + [raw(word) for word in words[1:]]
        child = limited.begin(argv, seconds, dict(self._environment, LC_ALL=b"C"))
        self._asked[child.pid] = words
        self.children.append(child)
        return child


def _wanted(has_nvidia_smi):
    """`(words, seconds)` of each command that can tell something on this node."""
    yield ["ofed_info", "-s"], _TOOL_LIMIT
    yield ["ip", "-json", "addr"], _LIMIT
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        yield ["ibv_devinfo"], _TOOL_LIMIT
        yield ["rdma", "link"], _LIMIT
        yield ["ip", "-json", "route", "show", "table", "all"], _LIMIT
        yield ["fi_info", "-p", "efa", "-t", "FI_EP_RDM"], _TOOL_LIMIT
    if has_nvidia_smi:
        apps = "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory"
        for words in (
            [_QUERY + _BASE, "--format=csv"],
            [_QUERY + _FURTHER, "--format=csv"],
            [apps, "--format=csv"],
            ["-L"],
            ["topo", "-m"],
            ["nvlink", "-s"],
        ):
            yield ["nvidia-smi"] + words, GPU_LIMIT
        yield (
            ["journalctl", "-k", "--since", "-2h", "-o", "short-iso", "--no-pager", "-q", "-g", "Xid"],
            _LIMIT,
        )
        yield ["dmesg"], _LIMIT
        yield ["nv-fabricmanager", "--version"], _LIMIT
    if os.path.isdir("/run/systemd/system"):
        yield ["systemctl", "is-active", "nvidia-fabricmanager"], _LIMIT
        manager = ["org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"]
        yield ["busctl", "get-property"] + manager + ["KillUserProcesses"], _LIMIT


def _found(environment):
    """Where the programs are, `{name: path}` (bytes). A folder in PATH that hangs leaves the system's own."""
    folders = environment.get(b"PATH", b"").split(b":")

    def look():
        return b"\n".join(_in_folders(folders + list(_SBIN)))

    found = limited.call(look, _LIMIT)
    paths = _in_folders(_SBIN) if found is None else found.split(b"\n")
    return {os.path.basename(path): path for path in paths if path}


def _in_folders(folders):
    found = []
    for name in _PROGRAMS:
        places = gpus.PLACES if name == b"nvidia-smi" else ()
        paths = [os.path.join(folder or b".", name) for folder in list(folders) + list(places)]
        found += [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)][:1]
    return found


def _without_refused(words, said):
    """The query without the field that nvidia-smi says it does not know; None where it refused none."""
    if words[0] != "nvidia-smi" or not words[1].startswith(_QUERY):
        return None
    fields = words[1][len(_QUERY) :].split(",")
    for field in fields:
        if 'Field "{}" is not a valid field'.format(field) in said:
            left = [_OLDER.get(each) if each == field else each for each in fields]
            kept = [each for each in left if each is not None]
            return [words[0], _QUERY + ",".join(kept)] + words[2:] if len(kept) > 1 else None
    return None


def _command(words, status, out, err):
    return {"argv": words, "rc": status, "stdout": out, "stderr": err}


def _shown(environment):
    """The variables that matter here, as `env` would print them."""
    names = [name for name in sorted(environment) if _is_shown(name)]
    return "".join("{}={}\n".format(text(name), text(environment[name])) for name in names)


def _is_shown(name):
    return any(name.startswith(shown) if shown.endswith(b"_") else name == shown for shown in _SHOWN)


def _interfaces():
    """The kernel's own answer in the form of `ip -json addr`."""
    told = []
    for interface in network.interfaces():
        flags = ["LOOPBACK"] if interface["loopback"] else []
        flags += ["UP", "LOWER_UP"] if interface["up"] else []
        told.append(
            {
                "ifname": interface["name"],
                "flags": flags,
                "addr_info": [
                    {
                        "family": "inet6" if ":" in address else "inet",
                        "local": address,
                        "prefixlen": int(interface["networks"][number].rpartition("/")[2]),
                    }
                    for number, address in enumerate(interface["addresses"])
                ],
            }
        )
    return json.dumps(told)
