"""Types of one's own: handles made from the definition of a composed type.

    auctions = claret.Type(pathlib.Path("auction.type").read_text())
    auctions.define(db)
    lot = auctions(db, "lot:1")
    lot.bid(5, "ann")

Each operation of the definition is a method of the handles, with its parameters by position or by
name. Like other handles they work on a database, in a transaction and on a batch. With the asyncio
client ``define``, ``migrate`` and the operations are awaited.
"""

import functools
import inspect

from .handles import Handle


class Type:
    """A composed type, by its definition (the text of ``TYPE.DEFINE``).

    ``name`` is its name, ``operations`` has the names of the parameters of each operation.
    """

    def __init__(self, definition):
        self.definition = definition
        self.name = None
        self.operations = {}
        self._commands = {}
        steps = None
        for line in definition.splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "type" and self.name is None:
                self.name = words[1]
            elif words[0] in ("op", "query"):
                self.operations[words[1]] = [word.split(":")[0] for word in words[2:]]
                steps = self._commands.setdefault(words[1], set())
                if words[0] == "query":
                    steps = None  # Whatever they are, they only read.
            elif words[0] in ("part", "map", "without", "expired"):
                steps = None
            elif steps is not None and words[0].startswith("|"):
                steps.add("SET")  # A program may write.
            elif steps is not None:
                steps.add(words[words[0] in ("return", "require")].upper())
        if self.name is None:
            raise ValueError("a definition begins with 'type' and a name")
        self._learn(frozenset().union(*self._commands.values()))

    def __repr__(self):
        return f"Type({self.name!r})"

    def define(self, db):
        """Defines the type in a database, unless it is there already. Returns its version.

        A program can do this whenever it starts. Another definition of the name is an error: see
        :meth:`migrate`.
        """
        return self._put(db, "TYPE.DEFINE")

    def migrate(self, db):
        """Gives the type this definition, which takes the values over. Returns the version."""
        return self._put(db, "TYPE.MIGRATE")

    def _put(self, db, command):
        version = db.execute_command(command, self.name, self.definition)
        if inspect.isawaitable(version):
            return self._put_later(db, version)
        self._learn(db.writers())
        return version

    async def _put_later(self, db, version):
        version = await version
        self._learn(await db.writers())
        return version

    def _learn(self, writers):
        """Takes the names of the commands that change data, or that may."""
        reads = (name for name, commands in self._commands.items() if not commands & writers)
        self._reads = frozenset(reads)

    def __call__(self, db, key):
        """The value under a key, on a database, in a transaction or on a batch."""
        return _Value(self, db, key)

    def _words(self, operation, key, arguments, named):
        parameters = self.operations[operation]
        unknown = [name for name in named if name not in parameters[len(arguments) :]]
        missing = [name for name in parameters[len(arguments) :] if name not in named]
        if unknown or missing or len(arguments) > len(parameters):
            raise TypeError(f"{self.name}.{operation}({', '.join(parameters)})")
        given = [*arguments, *(named[name] for name in parameters[len(arguments) :])]
        command = "TYPE.CALL_RO" if operation in self._reads else "TYPE.CALL"
        return (command, key, f"{self.name}.{operation}", *given)


class _Value(Handle):
    """A value of a composed type."""

    def __init__(self, of, db, key):
        super().__init__(db, key)
        self._of = of
        if "delete" in of.operations:
            # The operation, and not that of every handle.
            self.delete = functools.partial(self.call, "delete")

    def __repr__(self):
        return f"{self._of.name}({self.key!r})"

    def __getattr__(self, operation):
        if operation.startswith("_") or operation not in self._of.operations:
            names = ", ".join(self._of.operations)
            raise AttributeError(f"{self._of.name} has no operation {operation!r}, only {names}")
        return functools.partial(self.call, operation)

    def call(self, operation, *arguments, **named):
        """Calls an operation by its name, which may be that of something else here, such as ``key``."""
        return self._ask(self._of._words(operation, self.key, arguments, named))
