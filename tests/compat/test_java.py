"""Java's programs, the same against both servers: Curator's recipes and ZooKeeper's own shell."""

import contextlib
import functools
import pathlib
import re
import shutil
import subprocess

import pytest
from certificates import Authority
from harness import Server, free_port
from zookeeper import JARS, SCRIPTS, Claret, Zookeeper, environment, jars

PROJECT = pathlib.Path(__file__).parent / "curator" / "pom.xml"
WAIT_S = 300
RUN = "org.codehaus.mojo:exec-maven-plugin:3.1.0:java"

SHELL = """\
version
create /cli one
create -s /cli/s- two
create -e /cli/e
create -c /cli/c
create -t 100000 /cli/t data
create /cli/deep/er
create /cli/deep
create /cli/deep/er three
get /cli
get -s /cli
set /cli four
set -v 7 /cli five
set -s -v 1 /cli six
stat /cli
ls /cli
ls -s /cli/deep
ls -R /cli
getAcl /cli
setAcl /cli/t world:anyone:r
getAcl -s /cli/t
addauth digest ann:secret
create /cli/hers x digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:cdrwa
getAcl /cli/hers
whoami
addWatch /cli/deep
set /cli/deep/er seven
create /cli/deep/new
removewatches /cli/deep
removewatches /cli/deep
getEphemerals /cli
getAllChildrenNumber /cli
delete /cli/nowhere
delete /cli/deep
delete -v 9 /cli/deep/new
setquota -n 5 /cli/deep
listquota /cli/deep
set /cli/deep/er eight
listquota /cli/deep
setquota -b 100 /cli/deep
listquota /cli/deep
ls -R /zookeeper/quota
get /zookeeper/quota/cli/deep/zookeeper_limits
get /zookeeper/quota/cli/deep/zookeeper_stats
delquota /cli/deep
listquota /cli/deep
create /cli/full aaa
create /cli/full/a bb
setquota -N 3 /cli/full
setquota -B 10 /cli/full
listquota /cli/full
get /zookeeper/quota/cli/full/zookeeper_limits
create /cli/full/b c
create /cli/full/c
create -s -e /cli/full/c-
set /cli/full/a 1234567
set /cli/full/a 123456
ls /cli/full
listquota /cli/full
setquota -n 1 /cli/full/a
setquota -n 1 /cli
setquota -N 0 /cli/full
delquota -N /cli/full
create /cli/full/c
set /cli/full/c x
delquota -B /cli/full
set /cli/full/c x
listquota /cli/full
delquota /cli/full
listquota /cli/full
delquota /cli/full
sync /cli
config
reconfig -add server.9=127.0.0.1:1:2;3
deleteall /cli
ls /
quit
"""

FILES = [("cert", "server.pem"), ("key", "server.key"), ("client_ca", "ca.pem")]

# What differs from run to run: numbers of changes, times, sessions, ports.
NUMBERS = [
    (r"0x[0-9a-f]+", "0x#"),
    (r"(time = ).*", r"\1#"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:#"),
]


def shell(server, text):
    """What ZooKeeper's shell prints: answers and errors in their order, and what watches were told."""
    words = ["bash", SCRIPTS / "zkCli.sh", "-server", f"127.0.0.1:{server.port}"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    said = subprocess.run(words, input=text, text=True, timeout=WAIT_S, env=environment(), **both)
    lines, events = [], []
    for line in said.stdout.splitlines():
        # The log goes there as well. Watches are told by a thread of their own.
        if not line or line == "WATCHER::" or re.match(r"\d{4}-\d\d-\d\d |log4j:|SLF4J:|JLine", line):
            continue
        # The shell does not wait for the thread that tells of its own end: the line may be missing.
        if line.startswith("WatchedEvent state:Closed"):
            continue
        for pattern, replaced in NUMBERS:
            line = re.sub(pattern, replaced, line)
        (events if line.startswith("WatchedEvent") else lines).append(line)
    # ZooKeeper tells who somebody is in the order of a hash table.
    head = lines.index("Auth scheme: User") + 1
    lines[head : head + 2] = sorted(lines[head : head + 2])
    return lines, events


def test_zookeepers_shell_prints_the_same(both):
    if not (SCRIPTS / "zkCli.sh").exists():
        pytest.skip("Debian's package `zookeeper` is not installed")
    real, ours = (shell(server, SHELL) for server in both)
    assert len(real[0]) > 100 and "Created /cli" in real[0]
    for theirs, mine in zip(real, ours):
        assert mine == theirs


def test_zookeepers_shell_speaks_tls(tmp_path):
    if not shutil.which("java") or not (JARS / "netty-resolver.jar").exists():
        pytest.skip("Debian's packages `zookeeper` and `libnetty-java`, and Java, are not installed")
    authority = Authority(tmp_path / "tls")
    for name in ("server", "client"):
        authority.issue(name)
    folder = authority.folder
    # Java wants both in one file.
    (folder / "both.pem").write_text((folder / "client.key").read_text() + (folder / "client.pem").read_text())
    port = free_port()
    config = ["[tls]", f"port = {free_port()}", f"zookeeper_port = {port}"]
    config += [f'{name} = "{folder}/{file}"' for name, file in FILES]
    server = Server(tmp_path, config="\n".join([*config, ""])).start()
    options = {
        "client.secure": "true",
        "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "ssl.keyStore.location": folder / "both.pem",
        "ssl.trustStore.location": folder / "ca.pem",
    }
    # Debian's script does not name all that this takes.
    more = [str(JARS / f"netty-{name}.jar") for name in ("codec", "resolver")]
    words = ["java", "-Xmx128m", "-cp", ":".join([jars(), *more])]
    words += [f"-Dzookeeper.{name}={value}" for name, value in options.items()]
    words += ["org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", f"localhost:{port}"]
    text = "create /tls secret\nget /tls\nls /\nquit\n"
    try:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(words, input=text, text=True, timeout=WAIT_S, **both)
        lines = done.stdout.splitlines()
        assert "Created /tls" in lines and "secret" in lines and "[tls, zookeeper]" in lines, done.stdout
    finally:
        server.kill()


def maven(port, *more):
    words = ["mvn", "-q", "-B", *more, "-f", PROJECT, "compile", RUN, "-Dexec.mainClass=Programs"]
    words += [f"-Dexec.args=127.0.0.1:{port}"]
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)


# Servers of its own: a test that goes to one of `both` alone would leave them different for the next tests.
SERVERS = {
    "ZooKeeper": Zookeeper,
    "one-shard": functools.partial(Claret, over=1),
    "two-shards": functools.partial(Claret, over=2),
}


@pytest.mark.parametrize("start", SERVERS.values(), ids=SERVERS.keys())
def test_curators_recipes_keep_their_promises(start, tmp_path):
    for program in ["java", "mvn"]:
        if not shutil.which(program):
            pytest.skip(f"there is no {program}")
    folder = f"-Dbuild.folder={tmp_path}"
    with contextlib.closing(start(tmp_path / "server")) as server:
        done = maven(server.port, folder, "-o")
        if done.returncode and "AssertionError" not in done.stdout + done.stderr:
            # Curator's jars are not on this machine yet.
            done = maven(server.port, folder)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
