"""A site's groups of nodes (`@gpu`), as its ClusterShell knows them."""

from __future__ import annotations

import configparser
import os
import sys
from typing import Any

from rankdeck_profiles.errors import PoolError

_FILE = "groups.conf"
_LOOK = "`cluset --list-all` (ClusterShell) lists the groups of this site"


def members(name: str) -> list[str]:
    """The nodes of a group, in ClusterShell's order.

    Args:
        name: the group as written, with `@`: `@gpu`, or with its source `@racks:r1`.

    Raises:
        PoolError: there is no such group, or the site's configuration (groups.conf) can't be used.
    """
    # Only where a group is named: reading the site's groups takes time, and may run its commands.
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

    try:
        found = [str(node) for node in NodeSet(name, resolver=_resolver(name))]
    except (NodeSetException, GroupResolverError, GroupSourceError, configparser.Error) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise PoolError(f'"{name}": {said}', f"{_LOOK}; {_FILE} says where they are from") from None
    if not found:
        raise PoolError(f'"{name}": this site has no such group, or it is empty', _LOOK)
    return found


def _resolver(name: str) -> Any:
    """ClusterShell's resolver for the site's own files.

    The files that come with ClusterShell's package (in Python's prefix) hold examples: nodes named
    `example0`, which nobody has.
    """
    from ClusterShell.Defaults import config_paths
    from ClusterShell.NodeUtils import GroupResolverConfig

    packaged = os.path.join(sys.prefix, "etc", "clustershell", _FILE)
    paths = [path for path in config_paths(_FILE) if path != packaged]
    if not any(os.path.isfile(path) for path in paths):
        raise PoolError(
            f'"{name}" is a group of this site, and ClusterShell\'s {_FILE} is not here',
            f"looked for {', '.join(paths)}; name the nodes instead, such as gpu[001-004]",
        )
    return GroupResolverConfig(paths)
