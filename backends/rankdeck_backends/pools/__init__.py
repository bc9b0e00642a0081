"""Where nodes are listed outside of rankdeck: host files, a scheduler's allocation, the user's ssh config."""

from __future__ import annotations

from rankdeck_backends.pools.sources import SCHEDULERS, SSH_CONFIG, SourceError, read_file, read_source

__all__ = ["SCHEDULERS", "SSH_CONFIG", "SourceError", "read_file", "read_source"]
