"""ZooKeeper's protocol, byte by byte, for tests that say what no client library would."""

import socket
import struct
import time

NOTIFICATION, PING, AUTH, SET_WATCHES = -1, -2, -4, -8
OPEN = [(31, "world", "anyone")]
WAIT_S = 10
UNIMPLEMENTED = -6

# Operations by name.
OPS = {
    "create": 1, "delete": 2, "exists": 3, "getData": 4, "setData": 5, "getACL": 6, "setACL": 7,
    "getChildren": 8, "sync": 9, "ping": 11, "getChildren2": 12, "check": 13, "multi": 14,
    "create2": 15, "reconfig": 16, "checkWatches": 17, "removeWatches": 18, "createContainer": 19,
    "deleteContainer": 20, "createTTL": 21, "multiRead": 22, "auth": 100, "setWatches": 101,
    "sasl": 102, "getEphemerals": 103, "getAllChildrenNumber": 104, "setWatches2": 105,
    "addWatch": 106, "whoAmI": 107, "createSession": -10, "closeSession": -11,
}  # fmt: skip
CREATES = ("create", "create2", "createContainer", "createTTL")


def integer(value):
    return struct.pack(">i", value)


def long(value):
    return struct.pack(">q", value)


def truth(value):
    return b"\x01" if value else b"\x00"


def buffer(value):
    """Bytes or text with their length before them; None is null."""
    if value is None:
        return integer(-1)
    if isinstance(value, str):
        value = value.encode()
    return integer(len(value)) + value


def strings(values):
    return integer(len(values)) + b"".join(map(buffer, values))


def access(acl):
    lines = [integer(perms) + buffer(scheme) + buffer(who) for perms, scheme, who in acl]
    return integer(len(acl)) + b"".join(lines)


def body(op, path="", data=b"", acl=OPEN, flags=0, version=-1, watch=False, **more):
    """What follows the header of a request. Which arguments count depends on the operation."""
    if op in CREATES:
        ttl = long(more["ttl"]) if op == "createTTL" else b""
        return buffer(path) + buffer(data) + access(acl) + integer(flags) + ttl
    if op in ("delete", "check"):
        return buffer(path) + integer(version)
    if op in ("exists", "getData", "getChildren", "getChildren2"):
        return buffer(path) + truth(watch)
    if op == "setData":
        return buffer(path) + buffer(data) + integer(version)
    if op == "setACL":
        return buffer(path) + access(acl) + integer(version)
    if op in ("getACL", "sync", "getEphemerals", "getAllChildrenNumber"):
        return buffer(path)
    if op in ("multi", "multiRead"):
        parts = [integer(OPS[o]) + b"\x00" + integer(-1) + body(o, **a) for o, a in more["ops"]]
        return b"".join(parts) + integer(-1) + b"\x01" + integer(-1)
    if op == "auth":
        return integer(0) + buffer(more["scheme"]) + buffer(more["auth"])
    if op in ("setWatches", "setWatches2"):
        kinds = ["data_watches", "exist", "child"]
        kinds += ["persistent", "recursive"] if op == "setWatches2" else []
        return long(more["since"]) + b"".join(strings(more.get(kind, [])) for kind in kinds)
    if op == "addWatch":
        return buffer(path) + integer(more["mode"])
    if op in ("checkWatches", "removeWatches"):
        return buffer(path) + integer(more["which"])
    return b""


class Reader:
    """Takes apart what a server has sent."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return value

    def buffer(self):
        length = self.take("i")
        if length < 0:
            return None
        self.at += length
        assert self.at <= len(self.data)
        return self.data[self.at - length : self.at]

    def text(self):
        # ZooKeeper writes each half of a surrogate pair by itself, which is not UTF-8.
        halves = self.buffer().decode("utf-8", "surrogatepass")
        return halves.encode("utf-16", "surrogatepass").decode("utf-16")

    def list(self, item):
        return [item() for _ in range(self.take("i"))]

    def acl(self):
        return [(self.take("i"), self.text(), self.text()) for _ in range(self.take("i"))]

    def stat(self):
        names = ["czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner"]
        names += ["length", "children", "pzxid"]
        return {name: self.take(form) for name, form in zip(names, "qqqqiiiqiiq")}

    def reply(self, op):
        """The body of an answer without an error."""
        if op == "create":
            return {"path": self.text()}
        if op in CREATES:
            return {"path": self.text(), "stat": self.stat()}
        if op in ("exists", "setData", "setACL"):
            return {"stat": self.stat()}
        if op == "getData":
            return {"data": self.buffer(), "stat": self.stat()}
        if op == "getACL":
            return {"acl": self.acl(), "stat": self.stat()}
        if op == "getChildren":
            return {"names": sorted(self.list(self.text))}
        if op == "getChildren2":
            return {"names": sorted(self.list(self.text)), "stat": self.stat()}
        if op == "sync":
            return {"path": self.text()}
        if op == "getEphemerals":
            return {"paths": sorted(self.list(self.text))}
        if op == "getAllChildrenNumber":
            return {"number": self.take("i")}
        if op in ("multi", "multiRead"):
            return {"results": self.results()}
        if op == "addWatch":
            return {"error": self.take("i")}
        if op == "whoAmI":
            return {"who": sorted(self.list(lambda: (self.text(), self.text())))}
        return {}

    def results(self):
        names = {number: name for name, number in OPS.items()}
        results = []
        while True:
            kind, done, err = self.take("i"), self.take("?"), self.take("i")
            if done:
                return results
            if kind == -1:
                results.append({"err": self.take("i"), "head": err})
            else:
                results.append({"kind": kind, "head": err, **self.reply(names[kind])})

    def rest(self):
        return self.data[self.at :]


class Closed(Exception):
    """The server has closed the connection."""


class Raw:
    """A connection, and what came over it in its order."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.xid = 0
        self.asked = {}
        self.heard = []
        self.last = 0
        # Whether its answers have numbers that grow: with watches at several shards they go back when one
        # more is watched, to where all has been told.
        self.grows = True

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            # It may be closed while there is more to be sent.
            raise Closed from error

    def frame(self, *parts):
        self.send(buffer(b"".join(parts)))

    def read(self, length):
        data = b""
        while len(data) < length:
            try:
                more = self.socket.recv(length - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed
            data += more
        return data

    def next_frame(self):
        (length,) = struct.unpack(">i", self.read(4))
        return self.read(length)

    def connect(self, timeout_ms=30_000, session=0, password=b"\0" * 16, seen=0, version=0, tail=b"\0"):
        """The session's number, its timeout and its password."""
        self.frame(integer(version), long(seen), integer(timeout_ms), long(session), buffer(password), tail)
        reader = Reader(self.next_frame())
        _, self.timeout_ms, self.session = reader.take("i"), reader.take("i"), reader.take("q")
        self.password = reader.buffer()
        self.tail = reader.rest()
        return self

    def ask(self, op, xid=None, raw=None, **arguments):
        """Sends a request; its answer is what `wait` gives for the number."""
        if xid is None:
            xid = {"ping": PING, "auth": AUTH, "setWatches": SET_WATCHES, "setWatches2": SET_WATCHES}.get(op)
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.asked.setdefault(xid, []).append(op)
        number = OPS.get(op, op)
        self.frame(integer(xid), integer(number), body(op, **arguments) if raw is None else raw)
        return xid

    def hear(self):
        """The next thing that comes, put behind what was heard."""
        reader = Reader(self.next_frame())
        xid, zxid, err = reader.take("i"), reader.take("q"), reader.take("i")
        if xid == NOTIFICATION:
            kind, state, path = reader.take("i"), reader.take("i"), reader.text()
            self.heard.append({"event": kind, "state": state, "path": path})
            return None
        op = self.asked[xid].pop(0)
        # ZooKeeper has nought here for `auth` and for what it does not know.
        may_go_back = not self.grows or op == "auth" or err == UNIMPLEMENTED
        assert zxid >= self.last or may_go_back, "numbers of changes must grow along a session"
        self.last = max(zxid, self.last)
        told = {"op": op, "xid": xid, "err": err}
        if err == 0 and isinstance(op, str):
            told.update(reader.reply(op))
        told["left"] = reader.rest()
        self.heard.append(told)
        return xid

    def wait(self, xid):
        """Hears until the answer to this is there, and gives it."""
        while self.hear() != xid:
            pass
        return self.heard[-1]

    def do(self, op, **arguments):
        return self.wait(self.ask(op, **arguments))

    def ends(self, seconds=WAIT_S):
        """Everything that still comes, up to the end of the connection; None if it does not end."""
        deadline, data = time.monotonic() + seconds, b""
        while time.monotonic() < deadline:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return data
            except TimeoutError:
                break
            if not more:
                return data
            data += more
        return None

    def close(self):
        self.socket.close()
