"""A face of the agent that runs where the program will: its interpreter, its environment, its libraries.

Prints one line of JSON for each answer, `[key, value]`, at once: what a library that crashes or hangs takes
along is only what comes after it. Nothing is loaded that would start a GPU. ctypes is imported where there is
a library to ask: its import takes as long as all the rest. Keys: docs/preflight.md.
"""

import json
import mmap
import os
import re
import sys

from . import limited
from .encoding import text

_LOAD_LIMIT = 3.0
"""Seconds for a library to load: cold caches on a parallel file system are slow."""
_GPU_DRIVERS = ("/proc/driver/nvidia/version", "/sys/class/kfd/kfd")
"""What is there where a GPU's driver is loaded: without one nothing can be said of the GPUs."""
_LDCONFIG = b"/sbin/ldconfig"
_VERSION = re.compile(r"^(\w+)(?::[^=\n]*)? = '([^'\n]*)'", re.MULTILINE)
"""A line of torch/version.py: `cuda: Optional[str] = '12.4'`."""
_WHEEL = re.compile(r"nvidia[_-]nccl[_-]cu\d+-([\w.]+)\.dist-info$")
_BUILT_FOR = {
    "cuda": re.compile(rb"sm_\d+[af]?(?: (?:sm|compute)_\d+[af]?)*(?=\0)"),
    "hip": re.compile(rb"gfx[0-9a-f]+(?::\w+[+-])*(?: gfx[0-9a-f]+(?::\w+[+-])*)*(?=\0)"),
}
"""CUDA_ARCH_FLAGS in torch's library, which torch.cuda.get_arch_list() gives (torch/csrc/cuda/Module.cpp)."""
_CACHED = re.compile(rb"^\s*(\S+) \([^)]*\) => (\S+)$", re.MULTILINE)
"""A line of `ldconfig -p`."""


def answer(arguments):
    """Print what is known there.

    Args:
        arguments: the interpreter's name as it was asked for; none: only libraries are looked for, by the
            agent's own interpreter.
    """
    wheel = _wheel()
    if arguments:
        _tell("python", _python(arguments[0]))
        torch = _torch()
        _tell("torch", torch)
        if torch["state"] == "ok" and wheel is not None:
            _tell("torch_nccl", wheel[1])
    cached = _CACHED.findall(limited.capture([_LDCONFIG, b"-p"], _LOAD_LIMIT).out)
    if os.path.exists("/sys/class/infiniband"):
        for key, value in _verbs().items():
            _tell(key, value)
    if os.path.exists("/proc/driver/nvidia/version"):
        _tell("cuda_driver", _cuda_driver())
    _tell("nccl_libs", _nccl(cached, wheel))
    _tell("net_plugins", _plugins(cached))
    if arguments and torch["state"] == "ok" and any(map(os.path.exists, _GPU_DRIVERS)):
        _tell("torch", dict(torch, arch_list=architectures(torch)))  # again: last, as it reads 30 MB
    return 0


def _tell(key, value):
    sys.stdout.write(json.dumps([key, value]) + "\n")
    sys.stdout.flush()


def _python(asked):
    version = ".".join(str(part) for part in sys.version_info[:3])
    return {"asked": asked, "state": "ok", "path": sys.executable, "version": version, "prefix": sys.prefix}


def _torch():
    """The version file of the torch that would be imported; importing it takes seconds."""
    for folder in sys.path:
        path = os.path.join(folder, "torch", "version.py")
        try:
            with open(path, errors="replace") as file:
                found = dict(_VERSION.findall(file.read(1 << 16)))
        except OSError:
            continue
        told = {"state": "ok", "version": found.get("__version__"), "path": os.path.dirname(path)}
        told.update((kind, found.get(kind)) for kind in _BUILT_FOR)
        return told
    return {"state": "missing"}


def architectures(torch):
    """What torch has code for, as `torch.cuda.get_arch_list()` says it; empty where its library has none.

    The text is looked for in the library: the call itself needs torch to be imported, which takes 2 to 5 s of
    a CPU, and starts the GPU.
    """
    path = os.path.join(torch["path"], "lib", "libtorch_python.so")
    kind = next((kind for kind in _BUILT_FOR if torch[kind]), None)
    if kind is None:
        return []
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
            for match in _BUILT_FOR[kind].finditer(library):
                if library[match.start() - 1] == 0:
                    return match.group().decode("ascii").split()
    except (OSError, ValueError):  # not there; of size 0
        pass
    return []


def _wheel():
    """`(path of libnccl, version)` of the wheel that torch takes its NCCL from; None without one."""
    for folder in sys.path:
        library = os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")
        if not os.path.exists(library):
            continue
        for name in sorted(os.listdir(folder)):
            match = _WHEEL.match(name)
            if match:
                return library, match.group(1)
    return None


def _verbs():
    """Whether libibverbs loads, and how many devices it lists."""

    def look():
        import ctypes

        try:
            library = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        except OSError as error:
            return json.dumps({"libibverbs": "missing", "libibverbs_error": str(error)}).encode("ascii")
        library.ibv_get_device_list.restype = ctypes.c_void_p
        count = ctypes.c_int(0)
        devices = library.ibv_get_device_list(ctypes.byref(count))
        found = count.value if devices else 0
        return json.dumps({"libibverbs": "ok", "libibverbs_devices": found}).encode("ascii")

    found = limited.call(look, _LOAD_LIMIT)
    return json.loads(found.decode("ascii")) if found else {"libibverbs": "timeout"}


def _cuda_driver():
    def look():
        import ctypes

        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return b'"missing"'
        number = ctypes.c_int(0)
        library.cuDriverGetVersion(ctypes.byref(number))  # one of the few that need no cuInit
        return json.dumps(number.value).encode("ascii")

    found = limited.call(look, _LOAD_LIMIT)
    return json.loads(found.decode("ascii")) if found else "timeout"


def _nccl(cached, wheel):
    """Every libnccl.so.2 in the order the loader would find them, each with its version."""
    preloaded = [path for path in _listed("LD_PRELOAD") if "libnccl.so" in os.path.basename(path)]
    paths = preloaded + [os.path.join(folder, "libnccl.so.2") for folder in _listed("LD_LIBRARY_PATH")]
    if wheel is not None:
        paths.append(wheel[0])
    paths += [text(path) for name, path in cached if name == b"libnccl.so.2"]
    seen = set()
    found = []
    for path in paths:
        real = os.path.realpath(path)
        if real in seen or not os.path.exists(real):
            continue
        seen.add(real)
        known = wheel is not None and path == wheel[0]
        found.append("{} {}".format(path, wheel[1] if known else _nccl_version(path)))
    return found


def _nccl_version(path):
    def look():
        import ctypes

        number = ctypes.c_int(0)
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
        # nccl.h, NCCL_VERSION: two digits for the minor version since 2.9
        major = number.value // 1000 if number.value < 10000 else number.value // 10000
        rest = number.value % 1000 if number.value < 10000 else number.value % 10000
        return "{}.{}.{}".format(major, rest // 100, rest % 100).encode("ascii")

    found = limited.call(look, _LOAD_LIMIT)
    return found.decode("ascii") if found else "?"


def _plugins(cached):
    """Every libnccl-net*.so that NCCL could load by its name."""
    paths = []
    for folder in _listed("LD_LIBRARY_PATH"):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        paths += [os.path.join(folder, name) for name in names if _is_plugin(name)]
    paths += [text(path) for name, path in cached if _is_plugin(text(name))]
    seen = set()
    found = []
    for path in paths:
        name = os.path.basename(path)
        if name not in seen:
            seen.add(name)
            found.append({"name": name, "path": path, "state": _loads(path)})
    return found


def _is_plugin(name):
    return name.startswith("libnccl-net") and ".so" in name


def _loads(path):
    def look():
        import ctypes

        try:
            ctypes.CDLL(path)
        except OSError as error:
            return str(error).encode("utf-8", "replace")[:300]
        return b"ok"

    found = limited.call(look, _LOAD_LIMIT)
    return found.decode("utf-8", "replace") if found else "timeout"


def _listed(name):
    """The folders or libraries of a variable such as LD_LIBRARY_PATH."""
    return [word for word in re.split("[: ]", os.environ.get(name, "")) if word]
