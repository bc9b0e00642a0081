"""A cluster of pretend nodes on one machine, each with its own address, processes, files and OpenSSH server.

    with Cluster(4) as cluster:
        cluster.run("n1", ["hostname"])
        cluster.fault("cut", "n2")

By hand: ``python -m cluster up 4`` from the ``tests`` folder, as root. See docs/test-cluster.md.
"""

from cluster.cluster import Cluster, sweep
from cluster.errors import ClusterError
from cluster.options import NodeOptions
from cluster.requirements import missing

__all__ = ["Cluster", "ClusterError", "NodeOptions", "missing", "sweep"]
