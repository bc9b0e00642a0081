"""Where the agent starts: `session`, `supervise`, `shim`, `join` or `there`, each a face of its own."""

import sys


def main(arguments):
    """Run one face of the agent; returns the exit status.

    Args:
        arguments: `session FOLDER`, `supervise DIR`, `shim DIR PROCESS -- PROGRAM...`, `join FOLDER`, or
            `there INTERPRETER`.
    """
    face = arguments[0] if arguments else ""
    if face == "session":
        from .session import serve

        return serve(arguments[1])
    if face == "supervise":
        from .start import resume_by_hand

        return resume_by_hand(arguments[1])
    if face == "shim":
        from .shim import under_launcher

        return under_launcher(arguments[1:])
    if face == "join":
        from .mpi_shim import under_mpirun

        return under_mpirun(arguments[1:])
    if face == "there":
        from .there import answer

        return answer(arguments[1:])
    allowed = "session, supervise, shim, join, there"
    sys.stderr.write("rankdeck agent: found {!r}; allowed: {}\n".format(face, allowed))
    return 2
