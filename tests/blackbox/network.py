"""Machines with networks of their own, on one: links go down, and packets are late or lost.

Each machine is a network namespace with one interface, a TUN device. What leaves it goes to
`switch.py`, which passes it on, or does not. So a link fails as links do: nobody is told that a
connection has ended. Namespaces and devices are nameless and vanish with this process.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import threading

import redis
from clusters import MACHINES, UP_S_MAX, Cluster
from harness import Server, binary, until
from witnesses import SHARDS

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
INTERFACE = "net0"
# Number 0 is where the clients are.
CLIENTS = 0
PORT, PEER_PORT = 6379, 16379
PASSWORD = "of the network"

libc = ctypes.CDLL(None, use_errno=True)


def address(number):
    """Where a machine is."""
    return f"10.88.0.{number}"


def checked(result):
    """Raises what a function of the C library has noted."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def inside(space):
    """What this thread opens and starts meanwhile belongs to a namespace."""
    with open("/proc/thread-self/ns/net") as home:
        checked(libc.setns(space.fileno(), CLONE_NEWNET))
        try:
            yield
        finally:
            checked(libc.setns(home.fileno(), CLONE_NEWNET))


def new_space():
    """A namespace: an open file, with which it ends."""
    made = []

    def leave():
        try:
            checked(libc.unshare(CLONE_NEWNET))
            made.append(open("/proc/thread-self/ns/net"))
        except OSError as error:
            made.append(error)

    # A thread of its own, which does not come back.
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def ip(*words):
    """Configures the namespace of this thread."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


def new_interface(number):
    """The interface of the namespace of this thread; gives the file with its packets."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN | IFF_NO_PI)
    fcntl.ioctl(file, TUNSETIFF, request)
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{address(number)}/24", "dev", INTERFACE)
    ip("link", "set", INTERFACE, "mtu", "9000", "up")
    return file


class Network:
    """Namespaces, from that of the clients on, and what is between them."""

    def __init__(self, count):
        self.spaces, files = [], []
        try:
            for number in range(count):
                self.spaces.append(new_space())
                with inside(self.spaces[-1]):
                    files.append(new_interface(number))
            self.switch = subprocess.Popen(
                [sys.executable, str(pathlib.Path(__file__).parent / "switch.py"), *map(str, files)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=files,
                text=True,
            )
        finally:
            # They are the other process' now.
            for file in files:
                os.close(file)

    def tell(self, *words):
        """Tells the switch something, and waits until it is so."""
        print(*words, file=self.switch.stdin, flush=True)
        assert self.switch.stdout.readline() == "done\n"

    def delay(self, one_way_s):
        """From now on everything takes so long from one machine to another."""
        self.tell("delay", round(one_way_s * 1e6))

    def cut(self, source, target):
        """From now on nothing arrives that one machine sends to another."""
        self.tell("cut", source, target)

    def mend(self):
        """Whatever is sent arrives again."""
        for source in range(len(self.spaces)):
            for target in range(len(self.spaces)):
                self.tell("join", source, target)

    def link(self, number, up):
        """Takes a machine's interface down, or puts it up again."""
        with inside(self.spaces[number]):
            ip("link", "set", INTERFACE, "up" if up else "down")

    def end(self):
        """Ends the network."""
        self.switch.stdin.close()
        self.switch.wait(30)
        for space in self.spaces:
            space.close()


class Machine(Server):
    """A server in a namespace of its own."""

    def __init__(self, network, number, folder, *flags, **options):
        config = f'bind = "0.0.0.0"\npassword = "{PASSWORD}"\ninsecure = true\n'
        flags += ("--announce", f"{address(number)}:{PORT}")
        super().__init__(folder, *flags, port=PORT, config=config, **options)
        self.network = network
        self.number = number

    def start(self):
        """Starts the process where it belongs."""
        with inside(self.network.spaces[self.number]):
            return super().start()

    def client(self, kind=redis.Redis, at=CLIENTS, **options):
        """A client, at the place of the clients or on a machine."""
        space = self.network.spaces[at]
        host = "127.0.0.1" if at == self.number else address(self.number)

        class Wire(redis.Connection):
            def _connect(self):
                with inside(space):
                    return super()._connect()

        pool = redis.ConnectionPool(
            connection_class=Wire, host=host, port=PORT, password=PASSWORD, **self.usual(options)
        )
        return kind.from_pool(pool)

    def claret(self, *words):
        """What the program prints when it is run on this machine."""
        url = f"redis://:{PASSWORD}@127.0.0.1:{PORT}"
        with inside(self.network.spaces[self.number]):
            command = [binary(), *words, "--url", url]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Apart(Cluster):
    """A cluster with a network between its machines."""

    def __init__(self, folder, count=MACHINES, **options):
        self.network = Network(count + 1)
        super().__init__(folder, count, **options)

    @staticmethod
    def place(number):
        """Where a machine listens for the others."""
        return f"{number}={address(number)}:{PEER_PORT}"

    def machine(self, number, folder, *flags):
        """A server with a folder and an address of its own."""
        return Machine(self.network, number, folder, *flags, **self.options)

    def others(self, node):
        """All machines but one."""
        return [other for other in self.nodes if other is not node]


def leads(node):
    """Which shards each machine leads, as a node sees it; none unless all are connected."""
    machines = json.loads(node.claret("cluster", "status", "--json"))["machines"]
    if not all(machine["connected"] for machine in machines):
        return None
    return {m["machine"]: [lead["shard"] for lead in m["leads"]] for m in machines}


def agree(cluster):
    """Whether all machines say that all are connected, and the same of who leads what."""
    first, *rest = [leads(node) for node in cluster.nodes]
    if first is None or len(first) < len(cluster.nodes):
        return False
    return sum(map(len, first.values())) == SHARDS and all(other == first for other in rest)


def make_leader(cluster, node):
    """Lets a machine lead all shards."""
    cluster.let_lead(node)
    until(lambda: agree(cluster), UP_S_MAX)
    return node


def why_not():
    """What is missing for a network between machines on one, if anything is."""
    if not shutil.which("ip"):
        return "the program `ip` is missing: cargo xtask setup"
    try:
        Network(2).end()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"networks of one's own are not allowed here: {error}"
    return None
