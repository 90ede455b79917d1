"""Named values of one type each, on a database or in a transaction.

``Counter(db, "visits").add(1)`` is one command of its own; ``Counter(tx, "visits").add(1)`` is a
part of the transaction; on a batch it is a part of the batch. A handle has no state: it is a key
and the destination of its commands.

Writes return nothing unless called with ``returning=True``: writes without an observed answer can
be carried out in any order, so such writes of different transactions do not wait for each other. In
a transaction the answer of a write is a :class:`~claret.Deferred`.

``in``, ``len`` and iteration work where they are one command or a scan. A scan returns everything
that is present during all of its time; in a transaction, the state at one instant. With the asyncio
client every method must be awaited, and the methods ``has``, ``size`` and ``all`` replace the
operators.
"""

import inspect

from .errors import OrderError
from .later import Asked, Later
from .script import Deferred


def _text(word):
    return word.decode() if isinstance(word, bytes) else str(word)


def _none(_):
    return None


def _score(word):
    return None if word is None else float(word)


def _integer(word):
    return None if word is None else int(word)


class Handle:
    """A key, and the database or transaction that its commands go to."""

    def __init__(self, db, key):
        self.db = db
        self.key = key

    def __repr__(self):
        return f"{type(self).__name__}({self.key!r})"

    def delete(self, returning=False):
        """Removes the value. Returns whether it was there."""
        return self._write(("DEL", self.key), returning, bool)

    def _ask(self, words, convert=None):
        """Sends a command; returns its reply, converted wherever and whenever it arrives."""
        reply = self.db.execute_command(*words)
        if reply is self.db or convert is None:
            # A pipeline of redis-py returns itself.
            return reply
        if isinstance(reply, Deferred):
            return reply._then(convert)
        if inspect.isawaitable(reply):
            return Asked(_converted(reply, convert))
        return convert(reply)

    def _write(self, words, returning, convert=None):
        if returning:
            return self._ask(words, convert)
        reply = self._ask(words, None)
        return Asked(_converted(reply, _none)) if inspect.isawaitable(reply) else None


async def _converted(reply, convert):
    return convert(await reply)


def _here(reply, method):
    """The reply, for an operator, which cannot wait for it."""
    if inspect.iscoroutine(reply) or isinstance(reply, Asked):
        reply.close()
    if isinstance(reply, Later) or inspect.isawaitable(reply):
        raise OrderError(f"the reply comes later, and an operator needs it now: use `{method}`")
    return reply


class Register(Handle):
    """One value (``GET``, ``SET``)."""

    def get(self):
        """The value, or ``None``."""
        return self._ask(("GET", self.key))

    def set(self, value, ttl_s=None):
        """Replaces the value; it expires after ``ttl_s`` seconds, if given."""
        expiry = () if ttl_s is None else ("PX", max(1, round(ttl_s * 1000)))
        return self._write(("SET", self.key, value, *expiry), False)

    def exchange(self, value):
        """Replaces the value and returns the old one."""
        return self._ask(("GETSET", self.key, value))

    def create(self, value):
        """Sets the value if there is none. Returns whether it did."""
        return self._ask(("SET", self.key, value, "NX"), bool)


class _Collection(Handle):
    """Names of a collection's commands."""

    _SIZE = _HAS = ""

    def size(self):
        """Number of elements."""
        return self._ask((self._SIZE, self.key))

    def has(self, item):
        """Whether an element is in the collection."""
        return self._ask((self._HAS, self.key, item), bool)

    def __contains__(self, item):
        return _here(self.has(item), "has")

    def __len__(self):
        return _here(self.size(), "size")

    def __bool__(self):
        # An empty collection is still a handle: `if handle:` must not send a command.
        return True


class Map(_Collection):
    """Fields with values (``HSET`` and its family)."""

    _SIZE, _HAS = "HLEN", "HEXISTS"

    def get(self, field, default=None):
        """The value of a field."""
        return self._ask(("HGET", self.key, field), lambda v: default if v is None else v)

    def all(self):
        """All fields with their values, as a dictionary."""
        return self.db.hgetall(self.key)

    def put(self, field, value, returning=False):
        """Sets a field. Returns whether it is new."""
        return self._write(("HSET", self.key, field, value), returning, bool)

    def update(self, fields, returning=False):
        """Sets several fields. Returns how many are new."""
        words = [word for pair in fields.items() for word in pair]
        return self._write(("HSET", self.key, *words), returning)

    def add(self, field, delta, returning=False):
        """Adds to a field that holds an integer. Returns the sum."""
        return self._write(("HINCRBY", self.key, field, delta), returning)

    def discard(self, field, returning=False):
        """Removes a field. Returns whether it was there."""
        return self._write(("HDEL", self.key, field), returning, bool)

    def items(self):
        """Iterates over the pairs of field and value."""
        return self.db.hscan_iter(self.key)

    def __getitem__(self, field):
        value = _here(self.get(field), "get")
        if value is None:
            raise KeyError(field)
        return value

    def __setitem__(self, field, value):
        _here(self.put(field, value), "put")

    def __iter__(self):
        return (field for field, _ in self.items())


class Members(_Collection):
    """A set (``SADD`` and its family). Adding and removing different members commutes."""

    _SIZE, _HAS = "SCARD", "SISMEMBER"

    def add(self, *members, returning=False):
        """Adds members. Returns how many are new."""
        return self._write(("SADD", self.key, *members), returning)

    def discard(self, *members, returning=False):
        """Removes members. Returns how many were there."""
        return self._write(("SREM", self.key, *members), returning)

    def all(self):
        """All members, as a set."""
        return self._ask(("SMEMBERS", self.key), set)

    def __iter__(self):
        return self.db.sscan_iter(self.key)


class Scores(_Collection):
    """Members with scores, in the order of the scores (``ZADD`` and its family)."""

    _SIZE = "ZCARD"

    def has(self, member):
        """Whether a member is there."""
        return self._ask(("ZSCORE", self.key, member), lambda score: score is not None)

    def get(self, member):
        """The score of a member, or ``None``."""
        return self._ask(("ZSCORE", self.key, member), _score)

    def rank(self, member, best_first=False):
        """Number of members before a member, or ``None`` if it is not in the set."""
        return self._ask(("ZREVRANK" if best_first else "ZRANK", self.key, member))

    def put(self, member, score, returning=False):
        """Sets the score of a member. Returns whether it is new."""
        return self._write(("ZADD", self.key, score, member), returning, bool)

    def raise_to(self, member, score):
        """Sets the score of a member if it is higher than before. These commute."""
        return self._write(("ZADD", self.key, "GT", score, member), False)

    def add(self, member, delta, returning=False):
        """Adds to the score of a member. Returns the sum."""
        return self._write(("ZINCRBY", self.key, delta, member), returning, _score)

    def discard(self, *members, returning=False):
        """Removes members. Returns how many were there."""
        return self._write(("ZREM", self.key, *members), returning)

    def range(self, first=0, last=-1, best_first=False):
        """Pairs of member and score by rank, both ends included."""
        call = self.db.zrevrange if best_first else self.db.zrange
        return call(self.key, first, last, withscores=True)

    def all(self):
        """All pairs of member and score, lowest score first."""
        return self.range()

    def __iter__(self):
        return (member for member, _ in self.db.zscan_iter(self.key))


class Queue(Handle):
    """First in, first out (``RPUSH`` and ``LPOP``).

    The order is visible, so pushes and pops of different transactions take turns. Where the order
    does not matter, :class:`Log` or :class:`Members` avoid that wait.
    """

    def push(self, *items, returning=False):
        """Adds items at the end. Returns the length."""
        return self._write(("RPUSH", self.key, *items), returning)

    def pop(self):
        """Takes the first item; ``None`` if there is none.

        In a transaction the item is known after the commit, or at once with ``now=True``.
        """
        return self._ask(("LPOP", self.key))

    def move(self, to):
        """Takes the first item and adds it to the end of another queue; ``None`` if there is none."""
        return self._ask(("LMOVE", self.key, to.key, "LEFT", "RIGHT"))

    def wait(self, timeout_s=0):
        """Takes the first item, waiting for one; ``None`` if none arrives in time, 0 being for
        ever.

        In a transaction it does not wait.
        """
        return self._ask(("BLPOP", self.key, timeout_s), lambda pair: pair and pair[1])

    def size(self):
        """Number of items."""
        return self._ask(("LLEN", self.key))

    def all(self):
        """All items, the first one first."""
        return self._ask(("LRANGE", self.key, 0, -1))

    def __len__(self):
        return _here(self.size(), "size")

    __bool__ = _Collection.__bool__

    def __iter__(self):
        # In pages, as a scan would do it, if lists had one.
        page, first = 512, 0
        while True:
            items = self._ask(("LRANGE", self.key, first, first + page - 1))
            yield from items
            if len(items) < page:
                return
            first += page


class Counter(Handle):
    """An integer made for contention (``COUNTER.*``).

    Any number of transactions add to a counter at the same time. One with bounds never leaves them.
    """

    def set(self, value, low=None, high=None):
        """Sets the value, and the bounds that it will keep from now on."""
        bounds = () if low is None else ("MIN", low)
        bounds += () if high is None else ("MAX", high)
        return self._write(("COUNTER.SET", self.key, value, *bounds), False)

    def add(self, delta=1, returning=False):
        """Adds. Returns the sum on request, at the price of waiting for other such calls.

        A counter with bounds refuses unchecked additions: use :meth:`attempt`.
        """
        name = "COUNTER.INCR" if returning else "COUNTER.ADD"
        return self._write((name, self.key, delta), returning, _integer)

    def attempt(self, delta):
        """Adds if the bounds permit it. Returns whether they did."""
        return self._ask(("COUNTER.TRY", self.key, delta), bool)

    def get(self):
        """The value."""
        return self._ask(("COUNTER.GET", self.key), _integer)

    def at_least(self, threshold):
        """Whether the value is at least ``threshold``.

        In a transaction it blocks only additions that could change the answer.
        """
        return self._ask(("COUNTER.ATLEAST", self.key, threshold), bool)

    def bounds(self):
        """The lowest and the highest value that it may have, ``None`` for no bound."""
        return self._ask(("COUNTER.BOUNDS", self.key), lambda ends: tuple(map(_integer, ends)))


class Best(Handle):
    """The k best items by score (``TOPK.*``). Offers commute; each item keeps its highest score."""

    def create(self, capacity):
        """Sets the number of items to keep; the default is ten."""
        return self._write(("TOPK.INIT", self.key, capacity), False)

    def offer(self, item, score):
        """Offers an item, which is kept if it is good enough."""
        return self._write(("TOPK.PUT", self.key, item, score), False)

    def top(self, count=None):
        """The best items with their scores, best first.

        In a transaction it blocks only offers that would be among them.
        """
        words = ("TOPK.BEST", self.key) + (() if count is None else (count,))
        return self._ask(words + ("WITHSCORES",), _pairs)

    def rank(self, item):
        """Number of items that are better than an item; ``None`` if it is not kept."""
        return self._ask(("TOPK.RANKOF", self.key, item))

    def capacity(self):
        """Most items that are kept."""
        return self._ask(("TOPK.CAPACITY", self.key))

    def size(self):
        """Number of items that are kept now."""
        return self._ask(("TOPK.COUNT", self.key))

    def __len__(self):
        return _here(self.size(), "size")

    __bool__ = _Collection.__bool__

    def __iter__(self):
        return (item for item, _ in self.top())


def _pairs(words):
    """Items with scores: pairs in RESP3, one flat list in RESP2."""
    if words and not isinstance(words[0], (list, tuple)):
        words = zip(words[::2], words[1::2])
    return [(item, float(score)) for item, score in words]


class Log(Handle):
    """Entries in the order of the commits that appended them (``LOG.*``). Appends commute."""

    def create(self, capacity):
        """Sets the number of newest entries to keep; by default all are kept."""
        return self._write(("CAPLOG.INIT", self.key, capacity), False)

    def append(self, *entries, returning=False):
        """Adds entries. Returns the identifier of the last one."""
        return self._write(("LOG.APPEND", self.key, *entries), returning, _text)

    def tail(self, count=10, before=None):
        """The newest pairs of identifier and entry, newest first."""
        words = ("LOG.TAIL", self.key, count) + (() if before is None else ("BEFORE", before))
        return self._ask(words, _entries)

    def range(self, first="-", last="+", count=None):
        """Pairs of identifier and entry from one identifier to another, oldest first."""
        words = ("LOG.RANGE", self.key, first, last)
        return self._ask(words + (() if count is None else ("COUNT", count)), _entries)

    def trim(self, count, returning=False):
        """Removes all but the newest entries. Returns how many it removed."""
        return self._write(("LOG.TRIM", self.key, "MAXLEN", count), returning)

    def size(self):
        """Number of entries."""
        return self._ask(("LOG.LEN", self.key))

    def __len__(self):
        return _here(self.size(), "size")

    __bool__ = _Collection.__bool__

    def __iter__(self):
        return (entry for _, entry in self.range())


def _entries(found):
    return [(_text(identifier), entry) for identifier, entry in found]
