"""Fixtures of pytest: a server for all tests of a session, and a client for each test.

pytest finds them when the package is installed.
"""

import pytest

from .testing import Server

# Most characters of the server's output that a failed test shows.
SHOWN_MAX = 4000


@pytest.fixture(scope="session")
def claret_arguments():
    """Arguments of ``claret serve`` for ``claret_server``; override it to change them."""
    return []


@pytest.fixture(scope="session")
def claret_server(claret_arguments):
    """A server (:class:`claret.testing.Server`) that runs until the last test has ended."""
    with Server(*claret_arguments) as server:
        yield server


@pytest.fixture
def claret(claret_server):
    """A client of a server without data, which is started again if a test has killed it."""
    if not claret_server.is_running:
        claret_server.start()
    with claret_server.client(decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Adds what the server wrote to the report of a test that has failed with it."""
    outcome = yield
    report = outcome.get_result()
    server = getattr(item, "funcargs", {}).get("claret_server")
    if report.failed and isinstance(server, Server):
        report.sections.append(("Claret server", server.log[-SHOWN_MAX:]))
