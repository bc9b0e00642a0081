"""What a failed login means to a person: unknown host, changed host, refused key, silence: told apart."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

import asyncssh

from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.failures import excerpt
from rankdeck_backends.ssh_config import HostSettings
from rankdeck_backends.ssh_offers import Offers

_FULL = re.compile(rb"Exceeded MaxStartups")
"""What sshd says in place of its banner where it drops a login (sshd.c, drop_connection)."""
_HELD_BACK = re.compile(rb"Not allowed at this time")
"""What it says to an address that its PerSourcePenalties holds back (likewise)."""
_PROXY_DROPPED = re.compile(
    rb"kex_exchange_identification|ssh_exchange_identification|Connection (closed|reset)|Exceeded MaxStartups"
)
"""What a ProxyCommand says whose own server hung up: OpenSSH's clients and netcat, by their sources."""


@dataclass(slots=True)
class Seen:
    """What a login has shown so far; filled in while it goes on."""

    shown_key: asyncssh.SSHKey | None = None
    """A host key that was not among the trusted ones."""
    shown_ca: asyncssh.SSHKey | None = None
    """The certificate authority of a host certificate that is not a trusted one."""
    connected: bool = False
    """Whether there is a connection to speak SSH on."""
    banner: bool = False
    """Whether the server has spoken SSH."""
    greeting: bytes = b""
    """The beginning of what the server sent before it spoke SSH, where it did not."""
    let_through: bool = False
    """Whether its host key was accepted."""
    methods: dict[str, None] = field(default_factory=dict)
    """Ways of logging in that the server named, in order."""
    methods_told: bool = False
    """Whether the server came to name them."""
    offers: Offers = field(default_factory=Offers)
    proxy_said: bytes = b""
    """What the ProxyCommand wrote to stderr."""
    proxy_ended: int | None = None
    """The ProxyCommand's own exit status, if it has ended by itself."""
    asking: bool = False
    """Whether a person is being asked, or was when it ended."""
    answers: int = 0
    """How often a person has answered."""

    @property
    def speaks_otherwise(self) -> bool:
        """Whether what answers there is no SSH server."""
        is_refusal = _FULL.search(self.greeting) or _HELD_BACK.search(self.greeting)
        return bool(self.greeting.strip()) and not self.banner and not is_refusal

    @property
    def proxy_failed(self) -> bool:
        """Whether it is the ProxyCommand that could not do its work, and will not the next time."""
        return bool(self.proxy_ended) and not _PROXY_DROPPED.search(self.proxy_said)


def timed_out(node: str, settings: HostSettings, seen: Seen, seconds: float) -> NodeError:
    """The login did not get further in time."""
    if seen.let_through:
        return NodeError(
            node,
            Step.AUTH,
            f"{settings.target} accepted the connection but did not finish the login of user {settings.user} "
            f"within {seconds:g} s",
            "the node's account service (LDAP, SSSD) may hang, or an ssh agent waits for a confirmation; "
            f"try `{settings.command_line}`",
        )
    if not seen.connected:
        return NodeError(
            node,
            Step.CONNECT,
            f"the jump host in front of it had no connection to {settings.target} within {seconds:g} s",
            f"check that the node is up, and that its jump host reaches it: `{settings.command_line}`",
        )
    stage = (
        "did not finish the key exchange" if seen.banner else "accepted the connection but sent no SSH banner"
    )
    return NodeError(
        node,
        Step.CONNECT,
        f"{settings.target} {stage} within {seconds:g} s{_greeting_note(seen)}{_proxy_note(seen)}",
        "the node may hang (out of memory, frozen), or something else than sshd listens there",
    )


def login_failed(node: str, settings: HostSettings, seen: Seen, error: Exception) -> NodeError:
    """The login ended with this error of asyncssh's or the system's."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return _host_key(node, settings, seen, error)
    if isinstance(error, asyncssh.ChannelOpenError):
        return NodeError(
            node,
            Step.CONNECT,
            f"the jump host in front of it could not connect to {settings.target}: {_reason(error)}",
            f"check that the node is up, and that its jump host reaches it: `{settings.command_line}`",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return _denied(node, settings, seen, "no key was accepted")
    if seen.let_through:
        reason = _reason(error)
        if "too many authentication failures" in reason.lower():
            what = "the server gave up after too many refused keys"
            return _denied(node, settings, seen, what, too_many=True)
        if seen.asking:
            return NodeError(
                node,
                Step.AUTH,
                f"{settings.target} did not wait any longer for user {settings.user}'s answer: {reason}",
                "connect again to be asked again; sshd waits for LoginGraceTime, 120 s where none is set",
                needs_person=True,
            )
        return NodeError(
            node,
            Step.AUTH,
            f"the login of user {settings.user} on {settings.target} broke off: {reason}"
            f"{_offered_note(seen)}",
        )
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return NodeError(
            node,
            Step.CONNECT,
            f"{settings.target} and rankdeck have no algorithms in common: {_reason(error)}",
            "the ssh config may narrow Ciphers, KexAlgorithms or HostKeyAlgorithms, or the server is old",
        )
    return _not_reached(node, settings, seen, error)


def _not_reached(node: str, settings: HostSettings, seen: Seen, error: Exception) -> NodeError:
    """It ended before there was any SSH to speak of."""
    if seen.proxy_failed:
        status = seen.proxy_ended or 0
        how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
        return NodeError(
            node,
            Step.CONNECT,
            f"the ProxyCommand for {settings.target} {how} before the login: `{settings.proxy_command}`"
            f"{_wrote_note(seen.proxy_said)}",
            f"see that it works by hand: `{settings.command_line}`",
        )
    if seen.speaks_otherwise:
        return NodeError(
            node,
            Step.CONNECT,
            f"{settings.target} answers, but not as an SSH server{_greeting_note(seen)}{_proxy_note(seen)}",
            "is it sshd that listens there? check host and port",
        )
    return NodeError(
        node,
        Step.CONNECT,
        f"{settings.target} closed the connection before the login: {_reason(error)}"
        f"{_greeting_note(seen)}{_proxy_note(seen)}",
        "sshd holds logins from this address back for a while (PerSourcePenalties): wait, then try again"
        if _HELD_BACK.search(seen.greeting)
        else "sshd may be overloaded (MaxStartups), or may not want this address (its log says which)",
    )


def channel_refused(node: str, error: asyncssh.ChannelOpenError) -> NodeError:
    """Logged in, but no session to be had."""
    return NodeError(
        node,
        Step.SHELL,
        f"logged in, but the server opens no session: {_reason(error)}",
        "sshd's MaxSessions may be 0, or the account may be for forwarding only",
    )


def may_pass(seen: Seen, error: Exception) -> bool:
    """Whether a server only hung up early, as a busy one does: another try may get in."""
    if seen.let_through or seen.speaks_otherwise or seen.proxy_failed or _HELD_BACK.search(seen.greeting):
        return False
    return isinstance(error, (asyncssh.ConnectionLost, ConnectionError))


def is_new_key(settings: HostSettings, seen: Seen, error: Exception) -> bool:
    """Whether the login ended at a host key that may be accepted: not a changed one, nor one revoked."""
    if not isinstance(error, asyncssh.HostKeyNotVerifiable) or seen.shown_key is None:
        return False
    return not settings.trust(settings.host, settings.port).same_type(seen.shown_key)


def _host_key(node: str, settings: HostSettings, seen: Seen, error: Exception) -> NodeError:
    trust = settings.trust(settings.host, settings.port)
    key = seen.shown_key
    if key is None:
        what = f"the host key of {settings.target} is refused: {_reason(error)}"
        if seen.shown_ca is not None:
            what += f" (its certificate is signed by {_fingerprint(seen.shown_ca)})"
        revoked = ", ".join(entry.place for entry in trust.known if entry.marker == "revoked")
        if revoked:
            hint = f"it is marked @revoked in {revoked}"
        elif seen.shown_ca is None and trust.marked("cert-authority"):
            hint = "its authority is known: have the certificate made anew, for this name and a time to come"
        else:
            hint = "add the authority to known_hosts (@cert-authority)"
        return NodeError(node, Step.HOST_KEY, what, hint)
    changed = trust.same_type(key)
    if here := [entry.place for entry in changed if entry.key == key]:
        why = f"the host key of {settings.target} is in {', '.join(here)}, and was refused: {_reason(error)}"
        return NodeError(node, Step.HOST_KEY, why, f"see what ssh says: `{settings.command_line}`")
    if changed:
        known = "; ".join(f"{_fingerprint(entry.key)} in {entry.place}" for entry in changed)
        remove = "; ".join(
            f"ssh-keygen -R {shlex.quote(trust.found_as)} -f {shlex.quote(str(path))}"
            for path in dict.fromkeys(entry.path for entry in changed)
        )
        return NodeError(
            node,
            Step.HOST_KEY,
            f"the host key of {settings.target} has changed, the connection is refused:\n"
            f"  known: {known}\n  shown: {_fingerprint(key)}",
            f"if the node was reinstalled, remove the old key (`{remove}`), then accept the new one; "
            "if not, somebody may be in between",
        )
    others = ", ".join(dict.fromkeys(entry.get_algorithm() for entry in trust.marked()))
    known_by = f" (known only by a key of type {others})" if others else ""
    return NodeError(
        node,
        Step.HOST_KEY,
        f"the host key of {settings.target} is not known{known_by}: {_fingerprint(key)}",
        _accept_hint(settings, key),
    )


def _accept_hint(settings: HostSettings, key: asyncssh.SSHKey) -> str:
    hint = (
        f"compare the fingerprint with the node's own, then run `{settings.command_line}` once and answer yes"
    )
    reachable = settings.jump is None and settings.proxy_command is None and settings.host_key_alias is None
    if not reachable or settings.known_hosts_file is None:
        return hint
    kind = key.get_algorithm().removeprefix("ssh-").split("-")[0]
    port = f" -p {settings.port}" if settings.port != 22 else ""
    file = shlex.quote(str(settings.known_hosts_file))
    scan = f"ssh-keyscan{port} -t {kind} {shlex.quote(settings.host)} >> {file}"
    return f"{hint}, or `{scan}`"


def _denied(node: str, settings: HostSettings, seen: Seen, what: str, *, too_many: bool = False) -> NodeError:
    offers, identities = seen.offers, settings.keys.identities
    offered = offers.told()
    unusable = [
        f"{i.path} {i.trouble}"
        for i in identities
        if i.private is None and i.trouble and not (i.public and i.public.public_data in offers.made)
    ]
    takes_keys = not seen.methods or "publickey" in seen.methods
    methods = ", ".join(seen.methods)
    not_told = "none that rankdeck can use" if seen.methods_told else "not told before it closed"
    keys = f"keys offered: {', '.join(offered) or 'none'}"
    left = offers.left(settings.keys)
    if too_many:
        keys += "; then the server closed: MaxAuthTries"
    if left:
        keys += f"; not offered: {', '.join(left)}"
    if seen.answers:
        count = "one answer" if seen.answers == 1 else f"{seen.answers} answers"
        what = f"what was typed ({count}) was not accepted"
    lines = [
        f"{what} for user {settings.user} on {settings.target}",
        f"the server takes: {methods or not_told}",
        keys if takes_keys else "it takes no keys",
        *unusable,
    ]
    if offers.agent_trouble and takes_keys:
        lines.append(f"no ssh agent answers at {settings.agent_path}: {offers.agent_trouble}")
    if seen.answers:
        hint = (
            "connect again to be asked again; a password that has expired, or a locked account, is refused "
            f"like a wrong one: `{settings.command_line}` may say more"
        )
    else:
        hint = _denied_hint(settings, seen, takes_keys=takes_keys, unusable=bool(unusable), too_many=too_many)
    return NodeError(node, Step.AUTH, "\n  ".join(lines), hint, needs_person=bool(seen.answers))


def _denied_hint(
    settings: HostSettings, seen: Seen, *, takes_keys: bool, unusable: bool, too_many: bool
) -> str:
    """What to do where no way in was found."""
    encrypted = [str(i.path) for i in settings.keys.identities if i.lock and i.lock.private is None]
    if seen.methods and all(method.startswith("gssapi-") for method in seen.methods):
        return (
            "the server takes Kerberos alone: get a ticket with `kinit`, "
            "and have GSSAPIAuthentication yes in the ssh config"
        )
    if not takes_keys:
        return "it asks for what only a person knows: run rankdeck in a terminal and answer there"
    if too_many:
        return "name the right key for this host in the ssh config: IdentityFile, with IdentitiesOnly yes"
    if seen.offers.made:
        return (
            "check User and IdentityFile for this host in the ssh config; "
            f"`{settings.command_line}` must work without a password"
        )
    if seen.offers.agent_trouble:
        return (
            "SSH_AUTH_SOCK or IdentityAgent names an agent that is gone: start one, then `ssh-add` your keys"
        )
    if encrypted:
        return (
            f"load it into an ssh agent (`ssh-add {shlex.quote(encrypted[0])}`), "
            "or run rankdeck in a terminal, where it asks for the passphrase"
        )
    if unusable:
        return "mend the key that is named here, or load yours into an ssh agent (`ssh-add`)"
    return (
        "make a key (`ssh-keygen`) or load yours into an ssh agent (`ssh-add`), "
        "and put it on the node (`ssh-copy-id`)"
    )


def _fingerprint(key: asyncssh.SSHKey) -> str:
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error)
    return excerpt(str(reason).encode("utf-8", "backslashreplace")) or type(error).__name__


def _offered_note(seen: Seen) -> str:
    offered = seen.offers.told()
    return f"\n  keys offered until then: {', '.join(offered)}" if offered else ""


def _greeting_note(seen: Seen) -> str:
    said = excerpt(seen.greeting)
    return f"; it said:\n  {said}" if said and not seen.banner else ""


def _wrote_note(said: bytes) -> str:
    shown = excerpt(said)
    return f"; it wrote:\n  {shown}" if shown else "; it wrote nothing"


def _proxy_note(seen: Seen) -> str:
    said = excerpt(seen.proxy_said)
    return f"; its ProxyCommand said:\n  {said}" if said else ""
