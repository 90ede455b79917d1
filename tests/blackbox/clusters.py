"""Clusters of real servers, and clients that go on when a machine is lost."""

import random
import signal
import threading
import time

from harness import Server, free_port, until
from redis.exceptions import ClusterDownError, ConnectionError, ResponseError, TimeoutError

MACHINES = 3
# Of accounts in many slots.
TAGS = [f"{{tag{number}}}" for number in range(40)]
UP_S_MAX = 30


class Cluster:
    """Servers that know each other."""

    def __init__(self, folder, count=MACHINES, **options):
        self.folder = folder
        self.options = {"shards": 3, **options}
        self.addresses = [self.place(number) for number in range(1, count + 1)]
        self.nodes = []
        for number in range(1, count + 1):
            self.nodes.append(self.server(number, ",".join(self.addresses)))

    @staticmethod
    def place(number):
        """Where a machine listens for the others."""
        return f"{number}=127.0.0.1:{free_port()}"

    def server(self, number, addresses, *flags):
        """A server that is not started."""
        folder = self.folder / f"node{number}"
        folder.mkdir()
        return self.machine(number, folder, "--node", str(number), "--cluster", addresses, *flags)

    def machine(self, number, folder, *flags):
        """A server with a folder of its own."""
        return Server(folder, *flags, **self.options)

    def newcomer(self, number, knows=1):
        """A server that is to join, and what it is called: it knows the first few machines."""
        name = self.place(number)
        addresses = ",".join([*self.addresses[:knows], name])
        return self.server(number, addresses, "--join"), name

    def serve_zookeeper(self, *flags):
        """Lets all servers, which are not started yet, serve ZooKeeper's clients: their ports."""
        ports = [free_port() for _ in self.nodes]
        for node, port in zip(self.nodes, ports):
            node.flags += ["--zookeeper-port", str(port), *flags]
        return ports

    def start(self):
        """Starts all servers and waits until they serve."""
        for node in self.nodes:
            node.start()
        self.wait()
        return self

    def wait(self, nodes=None):
        """Waits until the nodes, or all, answer writes to every shard."""
        for node in nodes or self.nodes:
            until(lambda: self._serves(node), UP_S_MAX, f"a write to the server at {node.port}")

    @staticmethod
    def _serves(node):
        try:
            with node.client(socket_timeout=5) as client:
                for key in range(12):
                    client.set(f"probe:{key}", "x")
            return True
        except (ConnectionError, TimeoutError, ResponseError):
            return False

    def let_lead(self, node):
        """Lets a machine lead all shards, which it can only if it has everything."""
        number = node.flags[node.flags.index("--node") + 1]

        def leads(shard):
            with node.client() as client:
                try:
                    return client.execute_command("FAILOVER", "SHARD", shard, "TO", number)
                except ResponseError:
                    return False

        for shard in range(self.options["shards"]):
            until(lambda: leads(shard), UP_S_MAX, f"a handover of shard {shard} to {number}")

    def kill_and_restart(self, node, pause_s):
        """Kills a server, lets the others go on without it for a while, and starts it again."""
        node.kill()
        time.sleep(pause_s)
        node.start()

    def pause(self, node, pause_s):
        """Stops a server from running for a while: the others lose it, but it has lost nothing."""
        node.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(pause_s)
        finally:
            node.process.send_signal(signal.SIGCONT)

    def kill_and_restart_all(self):
        """Kills all servers at once: all that there is afterwards comes from the disks."""
        for node in self.nodes:
            node.kill()
        for node in self.nodes:
            node.start()
        self.wait()

    def said(self):
        """What the servers wrote to their standard errors, the ends."""
        return "\n".join(f"--- {node.port}\n{node.said()[-3000:]}" for node in self.nodes)


class Roaming:
    """A client that goes to another node when a connection breaks. It repeats nothing."""

    def __init__(self, cluster, first=0):
        self.cluster = cluster
        self.at = first
        self.client = None
        # The reason of each attempt whose outcome is not known, or that was refused.
        self.refusals = []

    def do(self, work):
        """Does something on a connection; tells whether it was acknowledged, and with what."""
        if self.client is None:
            node = self.cluster.nodes[self.at % len(self.cluster.nodes)]
            self.client = node.client(socket_timeout=15)
        try:
            return True, work(self.client)
        except (ConnectionError, TimeoutError) as error:
            self.refusals.append(repr(error))
            self.client.close()
            self.client = None
            self.at += 1
            time.sleep(0.02)
            return False, None
        except ResponseError as error:
            # redis-py tells the errors of a pipeline by the command that caused them.
            text = str(error).split("caused error: ")[-1]
            if text.startswith("REPEATED"):
                return True, None
            told = ("INDEFINITE", "the machine that led")
            assert isinstance(error, ClusterDownError) or text.startswith(told), str(error)
            self.refusals.append(str(error))
            return False, None


class Worker(threading.Thread):
    """Does something again and again until it is told to stop."""

    def __init__(self, cluster, number, stop, kind=Roaming):
        super().__init__(daemon=True)
        self.roaming = kind(cluster, number)
        self.number = number
        self.stop = stop
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.stop.is_set():
                self.work()
        except BaseException as error:
            self.error = error

    @staticmethod
    def finish(workers, cluster):
        """Ends the workers, which share an event, and tells if one has failed."""
        workers[0].stop.set()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive(), f"a client is stuck\n{cluster.said()}"
            assert worker.error is None, repr(worker.error)


class Counter(Worker):
    """Increments a key of its own."""

    last = acknowledged = unknown = 0

    @property
    def key(self):
        return f"counter:{self.number}"

    def work(self):
        _, answer = self.roaming.do(lambda client: client.incr(self.key))
        if answer is None:
            self.unknown += 1
            return
        assert answer > self.last, "an acknowledged increment is gone"
        self.last = answer
        self.acknowledged += 1


class Transfer(Worker):
    """Moves money between accounts in any two slots, in transactions."""

    moved = unknown = 0

    def work(self):
        source, target = random.sample(TAGS, 2)

        def move(client):
            with client.pipeline(transaction=True) as pipe:
                pipe.decrby(f"account:{source}", 1)
                pipe.incrby(f"account:{target}", 1)
                return pipe.execute()

        done, _ = self.roaming.do(move)
        self.moved += done
        self.unknown += not done
