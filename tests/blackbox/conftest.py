"""Servers for the tests: one per file to share, and as many as a test wants of its own."""

import pytest
from clusters import Cluster
from harness import Server
from network import Apart, why_not

import claret


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that the tests of a file share."""
    shared = Server(tmp_path_factory.mktemp("server")).start()
    yield shared
    assert shared.alive(), f"the server has ended: {shared.said()[-4000:]}"
    shared.kill()


@pytest.fixture(autouse=True)
def emptied(request):
    """The shared server has no keys when a test begins, whichever test it had before."""
    if "server" in request.fixturenames:
        with request.getfixturevalue("server").client() as client:
            client.flushall()


@pytest.fixture
def make_server(tmp_path):
    """Makes servers that end with the test; each has a folder of its own."""
    made = []

    def make(*flags, **options):
        folder = tmp_path / f"server{len(made)}"
        folder.mkdir()
        made.append(Server(folder, *flags, **options))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def make_cluster(tmp_path):
    """Makes one cluster that ends with the test."""
    made = []

    def make(**options):
        made.append(Cluster(tmp_path, **options))
        return made[-1]

    yield make
    for cluster in made:
        for node in cluster.nodes:
            node.kill()


@pytest.fixture
def make_apart(tmp_path):
    """Makes one cluster with a network between its machines, which ends with the test."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    made = []

    def make(**options):
        made.append(Apart(tmp_path, **options))
        return made[-1]

    yield make
    for cluster in made:
        for node in cluster.nodes:
            node.kill()
        cluster.network.end()


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def db(server, request):
    """A stock client of an empty server, once with each version of the protocol."""
    with server.client(protocol=request.param) as client:
        yield client


@pytest.fixture
def store(server):
    """Our client of an empty server."""
    with server.client(claret.Claret) as client:
        yield client
