"""Whether mpirun could log in to the other nodes: tried as it does it, by ssh that asks nothing."""

from . import limited
from .encoding import printable, raw

LIMIT = 90.0
"""Seconds for all: each ssh gives up by its own ConnectTimeout."""

HINT = "give its user a key that the others accept, and their host keys, or name both in options.ssh_args"

_NAMED = 3
"""Nodes that a message names."""

# $1: ssh's arguments, one text that is split at blanks, as mpirun takes it. Start-up files may print
# anything; that the command itself was run is seen by its word.
_TRY = b"""\
set -f
args=$1
shift
count=0
for host; do
    {
        said=$(ssh $args "$host" echo rankdeck-was-here 2>&1 </dev/null)
        status=$?
        case "$said" in
            *rankdeck-was-here*) ;;
            *)
                last=$(printf '%s' "$said" | tail -n 1 | cut -c 1-300)
                printf '%s\\t%s\\t%s\\n' "$host" "$status" "$last" ;;
        esac
    } &
    count=$((count + 1))
    test $((count % 32)) -ne 0 || wait
done
wait
"""


def why_not(hosts, arguments, base):
    """Why this node cannot log in to one of these; empty if it can to all.

    Args:
        hosts: names or addresses (text).
        arguments: ssh's, one text.
        base: the environment that mpirun has (bytes).
    """
    words = [b"sh", b"-c", _TRY, b"rankdeck-login", raw(arguments)]
    done = limited.capture(words + [raw(host) for host in hosts], LIMIT, base)
    failed = [line.split("\t", 2) for line in printable(done.out).splitlines() if line.count("\t") > 1]
    if not failed and not done.timed_out:
        return ""
    told = ["{}: {}".format(host, said or _silent(status)) for host, status, said in failed[:_NAMED]]
    if len(failed) > _NAMED:
        told.append("and {} more nodes".format(len(failed) - _NAMED))
    if done.timed_out:
        told.append("no answer within {:g} s".format(LIMIT))
    return "this node cannot log in to others, as mpirun must (ssh {}): {}".format(arguments, "; ".join(told))


def _silent(status):
    if status == "0":
        return "the login ends before it runs a command, as start-up files that call `exit` do"
    return "ssh ended with status {}".format(status)
