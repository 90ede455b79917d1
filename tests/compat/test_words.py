"""Words of four letters: the forms of ZooKeeper's answers, and figures that are true."""

import re
import socket

import jute
import pytest
from clusters import Cluster
from harness import until
from zookeeper import said


def lines(server, word):
    """An answer's lines. A connection that is still being closed is in some of them."""
    return server.words(word.encode()).decode().splitlines()


def names(server, word, separator):
    return [line.split(separator)[0] for line in lines(server, word)]


def test_answers_have_zookeepers_forms(both):
    real, ours = both
    sessions = [jute.Raw(server.port).connect() for server in both]
    for session in sessions:
        session.do("create", path="/w", flags=1)
        session.do("getData", path="/w", watch=True)
    # The same lines in the same order; how they begin is what programs look for.
    assert names(ours, "srvr", ": ") == names(real, "srvr", ": ")
    for word, separator in [("mntr", "\t"), ("conf", "="), ("envi", "="), ("dirs", ":")]:
        theirs, mine = names(real, word, separator), names(ours, word, separator)
        # What is told is told in their words; what is not measured is left out.
        extra = {"zk_max_file_descriptor_count"} | {name for name in mine if "latency" in name}
        assert set(mine) - extra <= set(theirs), word
        assert len(mine) >= len([name for name in theirs if not name.startswith("zk_")]) / 3
    connection = re.compile(
        r" /127\.0\.0\.1:\d+\[\d\]\(queued=\d+,recved=\d+,sent=\d+(,sid=0x[0-9a-f]+,lop=[A-Z]+,est=\d+,to=\d+,"
        r"(lcxid=0x[0-9a-f]+,)?lzxid=0x[0-9a-f]+,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+)?\)"
    )
    for server, session in zip(both, sessions):
        told = [line for line in lines(server, "cons") if line]
        assert all(connection.fullmatch(line) for line in told), told
        assert any(f"sid=0x{session.session:x},lop=GETD," in line for line in told)
        mine = f"0x{session.session:x}"
        by_session, by_path = lines(server, "wchc"), lines(server, "wchp")
        assert by_session[by_session.index(mine) + 1] == "\t/w"
        assert by_path[by_path.index("/w") + 1] == f"\t{mine}"
        summary = "\n".join(lines(server, "wchs"))
        assert re.fullmatch(r"\d+ connections watching \d+ paths\nTotal watches:\d+", summary)
        dump = lines(server, "dump")
        # There may be sessions of tests before this one.
        head = next(at for at, line in enumerate(dump) if re.fullmatch(r"Sessions with Ephemerals \(\d+\):", line))
        at = dump.index(f"0x{session.session:x}:")
        assert at > head and dump[at + 1] == "\t/w"
    for word in ["ruok", "isro", "crst", "srst"]:
        assert ours.words(word.encode()) == real.words(word.encode())
    for session in sessions:
        session.do("closeSession")


def figures(server):
    return dict(line.split("\t", 1) for line in lines(server, "mntr"))


def test_figures_are_true(both):
    for server in both:
        session = jute.Raw(server.port).connect()
        # What a tree takes for itself is there with its first node.
        session.do("create", path="/first", flags=0, data=b"")
        session.do("delete", path="/first", version=-1)
        before = figures(server)
        for number in range(5):
            session.do("create", path=f"/f{number}", flags=1, data=b"123")
            session.do("exists", path=f"/f{number}", watch=True)
        after = figures(server)
        grown = {name: int(after[name]) - int(before.get(name, 0)) for name in after if after[name].isdigit()}
        assert grown["zk_znode_count"] == grown["zk_ephemerals_count"] == grown["zk_watch_count"] == 5
        assert grown["zk_approximate_data_size"] == 5 * (len("/f0") + 3)
        # Ten requests, and the word itself.
        assert grown["zk_packets_received"] == 11 and grown["zk_packets_sent"] >= 10
        assert int(after["zk_global_sessions"]) >= 1
        session.do("closeSession")
        until(lambda: int(figures(server)["zk_znode_count"]) == int(before["zk_znode_count"]))
        server.words(b"srst")
        assert int(figures(server)["zk_packets_received"]) <= 2


def test_who_asks_may_close_its_side_first(both):
    """As `echo srvr | nc` does."""
    for server in both:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(b"srvr\n")
            connection.shutdown(socket.SHUT_WR)
            told = b""
            while more := connection.recv(4096):
                told += more
        assert told.startswith(b"Zookeeper version: 3.8.0")


def test_words_are_answered_without_a_quorum(tmp_path):
    cluster = Cluster(tmp_path, shards=1)
    ports = cluster.serve_zookeeper()
    cluster.start()
    try:
        session = jute.Raw(ports[0]).connect()
        session.do("create", path="/a")
        session.do("exists", path="/a", watch=True)

        def modes():
            told = [said(port, b"srvr").decode() for port in ports]
            found = [re.search(r"Mode: (\w+)\nNode count: (\d+)", one) for one in told]
            return found if all(found) and {one[2] for one in found} == {"5"} else None

        found = until(modes)
        assert sorted(one[1] for one in found) == ["follower", "follower", "leader"]
        for one, port in zip(found, ports):
            watches = b"Total watches:1" in said(port, b"wchs")
            assert watches == (one[1] == "leader")
            # As ZooKeeper's leader does, for alarms that count its followers.
            told = said(port, b"mntr").decode()
            follow = re.findall(r"zk_(quorum_size|learners|synced_followers)\t(\d)\n", told)
            leads = [("quorum_size", "3"), ("learners", "2"), ("synced_followers", "2")]
            assert follow == (leads if one[1] == "leader" else [])
        cluster.nodes[1].kill()
        cluster.nodes[2].kill()
        assert said(ports[0], b"ruok") == b"imok"
        assert b"Node count: 5" in said(ports[0], b"srvr")
        assert b"zk_znode_count\t5" in said(ports[0], b"mntr")
    finally:
        for node in cluster.nodes:
            node.kill()


@pytest.mark.parametrize("word", ["what", "RUOK", "rUok"])
def test_other_words_end_the_connection(both, word):
    for server in both:
        assert server.words(word.encode()) == b""
