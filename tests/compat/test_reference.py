"""The examples of the reference are carried out: each gives the replies that its page shows."""

import importlib.util
import pathlib
import sys

import pytest
from clusters import Cluster
from harness import Server
from redis_stories import carry_out, read, tell

SITE = pathlib.Path(__file__).resolve().parents[2] / "docs/site"


def module_of_site(name):
    """A module of the site, whose folder is on no path: others there have names of installed libraries."""
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


dialogues = module_of_site("dialogues")

ENTRIES = dialogues.entries()
# What redis-cli carries out itself, and what it does not return from.
OF_REDIS_CLI = {"HELLO", "QUIT", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "SHUTDOWN"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A server that is alone."""
    server = Server(tmp_path_factory.mktemp("alone"), shards=1).start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def member(tmp_path_factory):
    """A machine of a cluster."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), shards=1).start()
    yield cluster.nodes[0]
    for node in cluster.nodes:
        node.kill()


@pytest.fixture
def server_for(request, tmp_path):
    """Gives an empty server that can carry out an example."""
    ending = Server(tmp_path, shards=1)

    def server(group, name):
        if name == "SHUTDOWN":
            return ending.start()
        found = request.getfixturevalue("member" if group == "cluster" else "alone")
        with found.client(protocol=2) as client:
            client.flushall()
            client.function_flush()
            for _, defined, *_ in client.execute_command("TYPE.LIST"):
                client.execute_command("TYPE.DROP", defined)
        return found

    yield server
    ending.kill()


def stories(group):
    """The stories of a group by name."""
    return read(dialogues.FOLDER / f"{group}.story")


def beginning(told):
    """How a reply begins, in which its kind shows."""
    if told in ("$-1", "*-1", "_"):
        return "nil"
    return told if told in ("+OK", "closed") else told[0]


def test_all_commands_have_an_example(alone):
    with alone.client(protocol=3) as client:
        client.set_response_callback("COMMAND", lambda reply, **_: reply)
        told = client.execute_command("COMMAND", "DOCS")
    groups = {}
    for name, facts in told.items():
        groups.setdefault(facts["group"], set()).add(name)
    found = {group: set(commands) for group, commands in ENTRIES.items()}
    assert found == groups


@pytest.mark.parametrize("group", ENTRIES)
def test_examples_get_the_replies_that_are_shown(server_for, group):
    found = [
        f"{name}: {line}"
        for name, steps in stories(group).items()
        for line in tell(steps, server_for(group, name).port, "here")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("group", ENTRIES)
def test_replies_are_of_the_kinds_that_are_told(server_for, group, protocol):
    found = []
    for name, entry in ENTRIES[group].items():
        kinds = " ".join(dialogues.KINDS[kind][1][protocol - 2] for kind, _ in entry.replies)
        port = server_for(group, name.upper()).port
        for step, told, _ in carry_out(entry.steps, port, "here", protocol):
            asks = step.words and step.words[0].lower() == name and told != "..."
            if asks and beginning(told) not in kinds.split():
                found.append(f"line {step.number}: {step.text}: {told}, not {kinds}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("group", ENTRIES)
def test_errors_have_reasons(group):
    for name, steps in stories(group).items():
        if name.endswith(" fails"):
            failing = [step for step in steps if step.notes]
            assert failing, name
            for step in failing:
                assert step.words[0] == name.split()[0] and step.replies[""].startswith("-")


@pytest.mark.parametrize("group", ENTRIES)
def test_redis_cli_shows_the_same(server_for, group):
    for name, entry in ENTRIES[group].items():
        words = {step.words[0] for step in entry.steps if step.words}
        varies = any("<<" in reply for step in entry.steps for reply in step.replies.values())
        if varies or words & OF_REDIS_CLI or {step.connection for step in entry.steps} != {"me"}:
            continue
        lines, typed = entry.dialogue()
        stdin = "".join(f"{lines[number - 1][2:]}\n" for number in typed)
        replies = [line for number, line in enumerate(lines, 1) if number not in typed]
        printed = server_for(group, name.upper()).cli(stdin=stdin, flags=["--no-raw"])
        assert [line.rstrip() for line in printed.split("\n") if line] == replies, name
