"""The exit statuses, as docs and scripts know them. RankdeckError carries 2 and 3 by itself."""

import errno

UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""What writing to standard output fails with; other faults without a file's name are ours."""

EXIT_OK = 0
"""Done, or the run succeeded."""
EXIT_FAILED = 1
"""The run failed, or something could not be ended."""
EXIT_WRONG = 2
"""The command line or a file is wrong."""
EXIT_UNREACHED = 3
"""Nodes could not be reached."""
EXIT_UNREAD = 141
"""128 + SIGPIPE: nobody reads what `run` prints, and the run goes on."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
