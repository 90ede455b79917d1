"""Replies that a client keeps in memory, without the input and output.

The server notifies a connection that tracks keys when one of them is written (``invalidate``). A
reply is kept only if no such message about its key came since its command was sent. A hit is served
only if a question that was sent lately has an answer: all that the server had said before has then
arrived too. So a cache whose server is silent, or whose process was stopped, answers nothing from
memory.
"""

import collections
import time

from redis.exceptions import ConnectionError, RedisError, ResponseError

from . import rules
from .errors import ClientClosed, OrderError
from .later import check_words
from .script import avoids, check_kind

# Most replies, and the largest one in bytes, if the program sets no other limits.
MAX_ENTRIES = 10_000
MAX_REPLY_BYTES = 65_536

# Seconds without a question after which the connection is asked for a sign of life, the age of the
# newest answered question up to which hits are served, and that after which the connection is lost.
PING_S = 0.5
FRESH_S = 2.0
SILENT_S = 10.0

# Size of a reply's part that is no text, in bytes.
PART_BYTES = 8

MISSING = object()

Stats = collections.namedtuple("Stats", "hits misses dropped")


class Invalidation:
    """A message of the server that keys were written; ``None`` are all keys."""

    def __init__(self, message):
        self.keys = message[1]


class Question:
    """A command whose reply several readers may await: by itself, none does."""

    def __init__(self, words, is_read=True, tries=2):
        self.words = words
        # How often it may be sent, each time over another connection.
        self.tries = tries
        # Whether its reply may be kept; it is current while no invalidation of its key has come.
        self.is_read = is_read
        self.is_current = is_read

    def settle(self, reply=None, error=None):
        """Takes the outcome."""


class Kept:
    """Replies by their words, and the questions that are under way."""

    def __init__(self, max_entries, max_reply_bytes):
        self._max_entries = max_entries
        self._max_reply_bytes = max_reply_bytes
        self.hits = self.misses = self.dropped = 0
        # Replies by the words, beginning with the least recently used.
        self._replies = collections.OrderedDict()
        # For each key, the words that have a reply, and the questions by their words.
        self._words = collections.defaultdict(set)
        self._under_way = collections.defaultdict(dict)

    def find(self, words):
        """The reply to these words, or ``MISSING``."""
        reply = self._replies.get(words, MISSING)
        if reply is not MISSING:
            self._replies.move_to_end(words)
        return reply

    def under_way(self, words):
        """The question with these words that was asked already, if it is current."""
        return self._under_way.get(words[1], {}).get(words)

    def begin(self, question):
        """Records that a read is under way, unless another one with the same words is."""
        question.is_current = self.under_way(question.words) is None
        if question.is_current:
            self._under_way[question.words[1]][question.words] = question

    def end(self, question, reply=MISSING):
        """Records that a question is no longer under way, and keeps its reply if that is right."""
        if not question.is_current:
            return
        words, key = question.words, question.words[1]
        del self._under_way[key][words]
        if not self._under_way[key]:
            del self._under_way[key]
        if reply is MISSING or size(reply) > self._max_reply_bytes:
            self._remove(words)
            return
        self._replies[words] = reply
        self._replies.move_to_end(words)
        self._words[key].add(words)
        if len(self._replies) > self._max_entries:
            self._remove(next(iter(self._replies)))

    def _remove(self, words):
        if self._replies.pop(words, MISSING) is not MISSING:
            self._words[words[1]].discard(words)
            if not self._words[words[1]]:
                del self._words[words[1]]

    def drop(self, keys=None):
        """Drops the replies of some keys, or all, and those that are under way."""
        if keys is None:
            keys = [*self._words, *self._under_way]
        for key in keys:
            for words in self._words.pop(key, ()):
                del self._replies[words]
                self.dropped += 1
            for question in self._under_way.pop(key, {}).values():
                question.is_current = False


class Exchange:
    """Questions over one connection, without the input and output."""

    def __init__(self, kept):
        self._kept = kept
        self.unsent = collections.deque()
        # Questions without an answer, each with the time at which it was sent.
        self._waiting = collections.deque()
        self._last_sent = time.monotonic()
        self._newest_answered = float("-inf")

    def is_fresh(self):
        """Whether a question that was sent lately has an answer."""
        return time.monotonic() - self._newest_answered < FRESH_S

    def take(self):
        """Takes the words of the questions that are to be sent now, which may be none."""
        now = time.monotonic()
        taken, self.unsent = self.unsent, collections.deque()
        if not taken and now - self._last_sent >= PING_S:
            taken.append(Question((b"PING",), is_read=False, tries=1))
        if taken:
            self._last_sent = now
            self._waiting.extend((question, now) for question in taken)
        return [question.words for question in taken]

    def pause(self):
        """Seconds until the next question, if no reader has one."""
        return max(0, self._last_sent + PING_S - time.monotonic())

    def check_silence(self):
        """Raises ``ConnectionError`` if the server has not answered for too long."""
        if self._waiting and time.monotonic() - self._waiting[0][1] > SILENT_S:
            raise ConnectionError(f"the server has not answered in {SILENT_S:.0f} s")

    def receive(self, message):
        """Takes a message of the server: that keys were written, or the next reply."""
        if isinstance(message, Invalidation):
            self._kept.drop(message.keys)
            return
        question, self._newest_answered = self._waiting.popleft()
        if isinstance(message, ResponseError):
            self._kept.end(question)
            question.settle(error=message)
        else:
            self._kept.end(question, message)
            question.settle(message)

    def take_all(self):
        """Takes all questions that have no answer."""
        questions = [question for question, _ in self._waiting] + list(self.unsent)
        self._waiting.clear()
        self.unsent.clear()
        return questions


class Caching:
    """What the caches for threads and for asyncio share."""

    def __init__(self, db, max_entries, max_reply_bytes):
        if max_entries < 1:
            raise ValueError("max_entries is 1 at least")
        self._db = db
        self._kept = Kept(max_entries, max_reply_bytes)
        self._encoder = db.get_encoder()
        # Replies of ``COMMAND INFO`` about the commands of the server's table, by the name.
        self._facts = {}
        self._link = None
        self._is_closed = False

    @property
    def stats(self):
        """``hits``, reads that sent no request of their own; ``misses``, those that sent one; and
        ``dropped``, replies removed because of a write or a lost connection."""
        return Stats(self._kept.hits, self._kept.misses, self._kept.dropped)

    def get(self, key):
        """The string of a key, or ``None``."""
        return self.read("GET", key)

    def hgetall(self, key):
        """The fields of a hash."""
        return self.read("HGETALL", key)

    def _check_open(self):
        self._db.check_open()
        if self._is_closed:
            raise ClientClosed("the cache is closed; make another one")

    def _words_of(self, command, args):
        """The words of a read as the server gets them."""
        rules.check("a read through a cache")
        self._check_open()
        check_words(args)
        check_kind((command,), "a cache")
        if not args:
            raise OrderError(f"{command} needs its key here: a cache keeps replies by their keys")
        return tuple(self._encoder.encode(word) for word in (str(command).upper(), *args))

    def _check_read(self, words, fact):
        """Raises :class:`OrderError` unless a command reads one key, which is its first argument.

        Operations of types that clients define are in no table, and may write.
        """
        [about] = fact
        is_read = False
        if about is not None:
            self._facts[words[0]] = fact
            flags, first, last = set(about[2]), about[3], about[4]
            is_single = first == 1 and (last == 1 or len(words) == 2)
            is_read = is_single and b"readonly" in flags and flags.isdisjoint({b"movablekeys", b"blocking"})
        if not is_read:
            name = words[0].decode(errors="replace")
            raise OrderError(f"{name} is not a command that reads one key, its first argument")

    def _question(self, words, kind):
        """A reply that is kept, or else the question that a reader must await, which is asked."""
        if self._link is not None and self._link.exchange.is_fresh():
            reply = self._kept.find(words)
            if reply is not MISSING:
                self._kept.hits += 1
                return reply, None
        question = self._kept.under_way(words)
        if question is not None:
            self._kept.hits += 1
            return MISSING, question
        self._kept.misses += 1
        question = kind(words)
        self._kept.begin(question)
        self._ask(question)
        return MISSING, question

    def _new_connection(self):
        """A connection like those of the client, which speaks RESP3."""
        pool = self._db.connection_pool
        how = {**pool.connection_kwargs, "protocol": 3}
        how["socket_timeout"] = min(how.get("socket_timeout") or SILENT_S, SILENT_S)
        return pool.connection_class(**how)

    def is_over(self):
        """Whether the cache or its client is closed."""
        try:
            self._check_open()
            return False
        except ClientClosed:
            return True

    def lost(self, link, error):
        """Drops everything, as a link has ended. Asks questions again that it has lost, once."""
        self._link = None
        self._kept.drop()
        is_over = self.is_over()
        if is_over:
            error = ClientClosed("the cache is closed; make another one")
        for question in link.exchange.take_all():
            question.tries -= 1
            if is_over or not question.tries or not link.was_open:
                question.settle(error=error)
                continue
            if question.is_read:
                self._kept.begin(question)
            self._ask(question)

    def _decoded(self, reply):
        """A copy of a reply, with texts as the client has them."""
        if isinstance(reply, bytes):
            return self._encoder.decode(reply)
        if isinstance(reply, list):
            return [self._decoded(one) for one in reply]
        if isinstance(reply, dict):
            return {self._decoded(key): self._decoded(one) for key, one in reply.items()}
        return reply


def check_leader(connection, message):
    """Raises ``ConnectionError`` if another machine should be asked."""
    if isinstance(message, RedisError) and avoids(connection, message):
        raise ConnectionError("the machine knows no leader of the shard")


def size(reply):
    """The size of a reply in bytes, about."""
    if isinstance(reply, bytes):
        return len(reply)
    if isinstance(reply, list):
        return PART_BYTES + sum(map(size, reply))
    if isinstance(reply, dict):
        return PART_BYTES + sum(size(key) + size(one) for key, one in reply.items())
    return PART_BYTES
