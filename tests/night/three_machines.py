"""Clusters of three machines, of redis-server and of Claret, to compare."""

import random
import subprocess

import redis
from beside import Mortal, Redis
from clusters import Cluster
from harness import free_port, until


class RedisCluster:
    """Three redis-servers in a cluster."""

    def __init__(self, folder):
        folder.mkdir()
        flags = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port"]
        self.servers = [Redis(folder / str(n), *flags, str(free_port())) for n in range(3)]
        self.port = self.servers[0].port
        words = ["redis-cli", "--cluster-yes", "--cluster", "create"]
        words += [f"127.0.0.1:{server.port}" for server in self.servers]
        subprocess.run(words, check=True, capture_output=True, timeout=120)
        for server in self.servers:
            with redis.Redis(port=server.port) as client:
                until(lambda: client.cluster("info")["cluster_state"] == "ok", 60, "a cluster")

    def close(self):
        """Ends the servers."""
        for server in self.servers:
            server.close()


class ClaretCluster(Mortal):
    """Three machines of Claret."""

    name = "claret, three machines"

    def __init__(self, folder):
        folder.mkdir()
        self.cluster = Cluster(folder).start()
        self.ports = [node.port for node in self.cluster.nodes]
        self.port = self.ports[0]

    def kill_and_restart(self):
        """Kills any one of the machines, which is back after a moment."""
        self.cluster.kill_and_restart(random.choice(self.cluster.nodes), 1)

    def close(self):
        """Ends the servers, which must not have ended by themselves."""
        assert all(node.alive() for node in self.cluster.nodes), self.cluster.said()
        for node in self.cluster.nodes:
            node.kill()


KINDS = (RedisCluster, ClaretCluster)
