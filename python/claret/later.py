"""Replies that arrive later, and must not be used before.

Python would treat any object as true, and write it into a key's name as ``Deferred(open)``. Each
use that every object supports therefore raises an error that names the remedy.
"""

import collections.abc

from .errors import OrderError

# Uses of a value, by the names of the methods that Python calls for them. Without ``repr``, so that
# debuggers can show it; ``hash`` is up to each class.
_ARITHMETIC = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor".split()
)
_USES = [
    *"str format bytes bool int float complex index round trunc floor ceil".split(),
    *"lt le gt ge len iter next reversed contains getitem setitem delitem call".split(),
    *"neg pos abs invert".split(),
    *_ARITHMETIC,
    *(f"r{name}" for name in _ARITHMETIC),
    *(f"i{name}" for name in _ARITHMETIC if name != "divmod"),
]


class Later:
    """A reply that arrives later."""

    __slots__ = ()

    # The remedy to name.
    _ADVICE = "wait for it first"

    def _misused(self, *_):
        raise OrderError(f"this is not the reply, which comes later: {self._ADVICE}")

    def __eq__(self, other):
        return True if self is other else self._misused()

    def __ne__(self, other):
        return False if self is other else self._misused()

    def __hash__(self):
        self._misused()

    def __getattr__(self, name):
        raise AttributeError(
            f"{name!r} is nothing that {type(self).__name__} has; it is not the reply, which comes "
            f"later: {self._ADVICE}"
        )


for _use in _USES:
    setattr(Later, f"__{_use}__", Later._misused)


class Asked(Later, collections.abc.Coroutine):
    """A coroutine that returns a reply: for asyncio, which awaits it or makes a task of it."""

    __slots__ = ("_coroutine",)

    _ADVICE = "await it first"

    # ``asyncio.gather`` puts its arguments into a dictionary.
    __hash__ = object.__hash__

    def __init__(self, coroutine):
        self._coroutine = coroutine

    def send(self, value):
        """As of any coroutine."""
        return self._coroutine.send(value)

    def __next__(self):
        # A task of asyncio takes a step this way.
        return self.send(None)

    def throw(self, *error):
        """As of any coroutine."""
        return self._coroutine.throw(*error)

    def close(self):
        """As of any coroutine."""
        return self._coroutine.close()

    def __await__(self):
        return self._coroutine.__await__()

    def __repr__(self):
        return f"<{type(self).__name__}: {self._coroutine!r}>"


def check_words(words):
    """Raises :class:`OrderError` if an argument of a command is a reply that has not arrived."""
    for word in words:
        if isinstance(word, Later):
            word._misused()
