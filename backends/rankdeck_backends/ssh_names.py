"""What rankdeck's own SSH client and the system's have in common."""

CONFIG_VARIABLE = "RANKDECK_SSH_CONFIG"
"""Path of an ssh config to use in place of the user's and the system's, as with `ssh -F`."""
KEEPALIVE_INTERVAL = 5
"""Seconds without a packet after which the server is asked whether it is there."""
KEEPALIVE_COUNT = 5
"""Questions without an answer, after which the connection counts as lost."""
