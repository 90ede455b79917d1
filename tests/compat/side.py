"""One story, told to two servers, and what each of them made of it."""

import jute


class Side:
    """One server and the sessions of a story at it. Every step is recorded with everything that any
    session was told because of it, in its order."""

    def __init__(self, server):
        self.server = server
        self.sessions = {}
        self.steps = []
        # Whether only what a step tells counts, and not in which order: if it is about several shards.
        self.in_any_order = False

    def open(self, name, **options):
        session = jute.Raw(self.server.port)
        session.grows = not self.in_any_order
        self.sessions[name] = session.connect(**options)
        return session

    def do(self, name, op, **arguments):
        """One request; gives its answer."""
        session = self.sessions[name]
        xid = session.ask(op, **arguments)
        told = session.wait(xid)
        what = {key: value for key, value in arguments.items() if key != "since"}
        self.record((name, op, what), name if op == "closeSession" else None)
        return told

    def send(self, name, *parts):
        """A frame that no client would send, whose answer has this number."""
        session = self.sessions[name]
        (xid,) = jute.struct.unpack(">i", parts[0][:4])
        session.asked.setdefault(xid, []).append(None)
        session.frame(*parts)
        told = session.wait(xid)
        self.record((name, parts), None)
        return told

    def record(self, step, closed):
        """Hears what everybody has been told, which comes before the answer to a ping."""
        if closed:
            ended = self.sessions.pop(closed)
            assert ended.ends() == b"", "after the end of a session nothing more is said"
            self.steps.append((step, {closed: [self.plain(ended, told) for told in ended.heard]}))
            step = "its end"
        heard = {}
        for name, session in self.sessions.items():
            xid = session.ask("ping")
            session.wait(xid)
            told = [self.plain(session, one) for one in session.heard[:-1]]
            session.heard.clear()
            # The order in which a session's nodes go is ZooKeeper's secret.
            heard[name] = sorted(told, key=str) if closed or self.in_any_order else told
        self.steps.append((step, heard))

    def plain(self, session, told):
        """What must be the same on both sides."""
        plain = dict(told)
        if "stat" in plain:
            plain["stat"] = self.stat(session, plain["stat"])
        if "results" in plain:
            plain["results"] = [self.plain(session, result) for result in plain["results"]]
        return plain

    def stat(self, session, stat):
        owner = stat["owner"]
        if owner:
            owner = "this session" if owner == session.session else "another session"
        created, data, children = stat["czxid"], stat["mzxid"], stat["pzxid"]
        names = ["version", "cversion", "aversion", "length", "children"]
        return {
            **{name: stat[name] for name in names},
            "owner": owner,
            # Numbers of changes differ, and what follows what does not.
            "data set later": data > created,
            "children changed later": children > created,
            "children or data": (children > data) - (children < data),
            "times": stat["ctime"] <= stat["mtime"],
        }

    def close(self):
        for session in self.sessions.values():
            session.close()


def same(servers, story):
    """Tells the story to both servers and compares what each of them said."""
    sides = []
    for server in servers:
        side = Side(server)
        try:
            story(side)
        except (AssertionError, jute.Closed, TimeoutError) as error:
            raise AssertionError(f"{server.name}, after {side.steps[-1:]}: {error!r}") from error
        finally:
            side.close()
        sides.append(side)
    real, ours = sides
    for number, (theirs, mine) in enumerate(zip(real.steps, ours.steps)):
        assert mine == theirs, (
            f"step {number} {theirs[0]}:\n  {servers[0].name}: {theirs[1]}\n  {servers[1].name}: {mine[1]}"
        )
    assert len(real.steps) == len(ours.steps)


def clean(servers, root):
    """Deletes a node and everything below it, on both sides."""
    for server in servers:
        session = jute.Raw(server.port).connect()
        for user in [b"ann:secret", b"ben:pw"]:
            session.do("auth", scheme="digest", auth=user)
        clear(session, root)
        session.do("closeSession")
        session.close()


def clear(session, path):
    for name in session.do("getChildren", path=path).get("names", []):
        clear(session, f"{path}/{name}")
    session.do("delete", path=path)
