"""Interfaces and ports, asked of the kernel itself: `ip` is not everywhere, and its output differs."""

import errno
import os
import socket
import struct

# rtnetlink(7), netlink(7), linux/if_link.h, linux/if_addr.h
_RTM_GETLINK, _RTM_NEWLINK, _RTM_GETADDR, _RTM_NEWADDR = 18, 16, 22, 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x1 | 0x300
_IFLA_IFNAME, _IFA_ADDRESS, _IFA_LOCAL = 3, 1, 2
_BIND_ERRORS = {
    errno.EADDRINUSE: "in use: another program listens there",
    errno.EADDRNOTAVAIL: "no interface of this node has that address",
    errno.EACCES: "permission denied: this port is for root",
}
_IFF_UP, _IFF_LOOPBACK, _IFF_RUNNING = 0x1, 0x8, 0x40


def interfaces():
    """Each interface as {name, up, loopback, addresses, networks, speed_mbit}; none if the kernel refuses.

    `networks` has one for each address, such as `10.0.0.0/24`.
    """
    try:
        links = _links()
        for index, address, network in _addresses():
            if index in links:
                links[index]["addresses"].append(address)
                links[index]["networks"].append(network)
    except OSError:
        return []
    return [links[index] for index in sorted(links)]


def _links():
    found = {}
    for kind, body in _dump(_RTM_GETLINK):
        if kind != _RTM_NEWLINK:
            continue
        _, _, index, flags, _ = struct.unpack_from("=BxHiII", body)
        name = _attributes(body[16:]).get(_IFLA_IFNAME, b"").rstrip(b"\0").decode("utf-8", "replace")
        found[index] = {
            "name": name,
            "up": bool(flags & _IFF_UP) and bool(flags & (_IFF_RUNNING | _IFF_LOOPBACK)),
            "loopback": bool(flags & _IFF_LOOPBACK),
            "addresses": [],
            "networks": [],
            "speed_mbit": _speed(name),
        }
    return found


def _addresses():
    for kind, body in _dump(_RTM_GETADDR):
        if kind != _RTM_NEWADDR:
            continue
        family, prefix, _, _, index = struct.unpack_from("=BBBBI", body)
        if family not in (socket.AF_INET, socket.AF_INET6):
            continue
        attributes = _attributes(body[8:])
        packed = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
        if packed:
            yield index, socket.inet_ntop(family, packed), _network(family, packed, prefix)


def _network(family, packed, prefix):
    """`10.0.0.0/24`: the address with all but its first `prefix` bits cleared."""
    host_bits = len(packed) * 8 - prefix
    number = int.from_bytes(packed, "big") >> host_bits << host_bits
    return "{}/{}".format(socket.inet_ntop(family, number.to_bytes(len(packed), "big")), prefix)


def _dump(kind):
    """All messages that answer one dump request, as (type, body)."""
    asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)  # protocol 0: NETLINK_ROUTE
    try:
        asked.settimeout(1.0)
        asked.bind((0, 0))
        asked.send(struct.pack("=IHHIIBxxx", 20, kind, _REQUEST_DUMP, 1, 0, socket.AF_UNSPEC))
        while True:
            data = asked.recv(1 << 16)
            while len(data) >= 16:
                length, answered = struct.unpack_from("=IH", data)
                if answered == _NLMSG_DONE:
                    return
                if answered == _NLMSG_ERROR or length < 16:
                    raise OSError(errno.EPROTO, "netlink refused")
                yield answered, data[16:length]
                data = data[(length + 3) & ~3 :]
    finally:
        asked.close()


def _attributes(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _speed(name):
    """What sysfs says in Mbit/s; None where the driver does not tell (it says -1, or refuses)."""
    try:
        with open(os.path.join("/sys/class/net", name, "speed")) as file:
            speed = int(file.read())
    except (OSError, ValueError):
        return None
    return speed if speed > 0 else None


def free_port(address, first, count):
    """The first port from `first` on that can be bound at the address and on all addresses; None if none can.

    torch's store listens on all addresses whatever MASTER_ADDR says, so both must be free.
    """
    for port in range(max(1, first), min(65536, first + count)):
        if not cannot_bind(address, port) and not cannot_bind("", port):
            return port
    return None


def cannot_bind(address, port):
    """Why a server could not listen there, or an empty text.

    Args:
        address: an IPv4 or IPv6 address or a name; empty for all addresses.
        port: 1 to 65535.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        tried = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # no IPv6 in this kernel
        return error.strerror or str(error)
    try:
        tried.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as listeners do; TIME_WAIT is no hindrance
        tried.bind((address, port))
        tried.listen(1)
    except OSError as error:
        return _BIND_ERRORS.get(error.errno) or error.strerror or str(error)
    except UnicodeError as error:  # a name that cannot be one
        return str(error)
    finally:
        tried.close()
    return ""
