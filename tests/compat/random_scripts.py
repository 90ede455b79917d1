"""Random scripts, each with the data that it finds and the words that it gets.

A script does what both servers must answer alike: the order of a set's members, the place of keys in an object of
JSON and the text of an error of the language are not shown by any.
"""

import random

# What scripts show of a value: nothing that may differ.
HEAD = """\
local function code(e)
  if type(e) == 'table' then e = e.err end
  return string.match(tostring(e), '^[A-Z]+ ') or 'other'
end
local function show(v)
  local kind = type(v)
  if kind == 'table' then
    if v.err then return 'err:' .. code(v) end
    if v.ok then return 'ok:' .. v.ok end
    local parts = {}
    for i = 1, #v do parts[i] = show(v[i]) end
    return '{' .. table.concat(parts, ',') .. '}'
  end
  if v ~= v then return 'nan' end
  return string.sub(kind, 1, 1) .. tostring(v)
end
local function sorted(v)
  if type(v) == 'table' and not v.err then table.sort(v) end
  return v
end
local function number(v) return tonumber(v) or 3 end
local function text(v)
  if type(v) == 'table' or type(v) == 'boolean' then return show(v) end
  return v or ''
end
"""

WORDS = ["", "a", "b", "c", "abc", "x-y", "10", "-7", "3.5", "Hello, world", "%d", "tab\\t", "1e3", "0x10", " 12 "]
TYPES = ["string", "number", "list", "set", "hash", "zset", "none"]

# Commands by the type of key that they are for. K is a key of that type, k any key, w a word, n a small number, m a
# member, f a score; others are as they are.
COMMANDS = {
    "string": [
        "GET K", "SET K w", "SET K w EX 100", "SET K w NX", "SET K w XX", "SET K w GET", "SET K w KEEPTTL",
        "APPEND K w", "STRLEN K", "GETRANGE K n n", "SETRANGE K 2 w", "GETSET K w", "SETNX K w", "MSET K w k w",
        "MSETNX K w k w", "MGET K k k", "GETDEL K", "GETEX K PERSIST", "SETEX K 100 w", "BITCOUNT K", "GETBIT K 3",
        "SETBIT K 3 1",
    ],
    "number": [
        "GET K", "INCR K", "DECR K", "INCRBY K n", "DECRBY K n", "INCRBYFLOAT K 0.5", "APPEND K 1", "SET K n",
    ],
    "list": [
        "LPUSH K m m", "RPUSH K m", "LPUSHX K m", "LPOP K", "RPOP K", "LPOP K 2", "LRANGE K n n", "LRANGE K 0 -1",
        "LLEN K", "LINDEX K n", "LSET K n w", "LREM K n m", "LTRIM K 0 n", "RPOPLPUSH K k", "LMOVE K k LEFT RIGHT",
        "LINSERT K BEFORE m w", "LPOS K m",
    ],
    "set": [
        "SADD K m m", "SREM K m", "SISMEMBER K m", "SCARD K", "SMISMEMBER K m m", "SMOVE K k m", "SINTERCARD 2 K k",
        "SUNIONSTORE K K k", "SDIFFSTORE k K k",
    ],
    "hash": [
        "HSET K m w", "HSET K m w m w", "HGET K m", "HMGET K m m", "HDEL K m", "HEXISTS K m", "HLEN K", "HSTRLEN K m",
        "HINCRBY K m n", "HSETNX K m w", "HINCRBYFLOAT K m 1.5", "HMSET K m w",
    ],
    "zset": [
        "ZADD K f m", "ZADD K NX f m f m", "ZADD K XX CH f m", "ZADD K GT f m", "ZADD K INCR f m", "ZSCORE K m",
        "ZMSCORE K m m", "ZINCRBY K f m", "ZREM K m", "ZCARD K", "ZRANGE K 0 -1", "ZRANGE K 0 -1 WITHSCORES",
        "ZRANGEBYSCORE K -inf f", "ZREVRANGE K 0 n", "ZRANK K m", "ZCOUNT K (1 +inf", "ZPOPMIN K", "ZPOPMAX K 2",
        "ZREMRANGEBYSCORE K f f",
    ],
    "none": [
        "EXISTS K k", "DEL K", "UNLINK K k", "TYPE K", "EXPIRE K 100", "PERSIST K", "TTL K", "RENAME K k",
        "RENAMENX K k", "COPY K k", "NOSUCH K", "GET", "SET K", "LPUSH K", "HSET K m", "INCRBY K x", "ECHO w", "PING",
        "TOUCH K k",
    ],
}  # fmt: skip

# Data of a type, behind the key.
CONTENTS = {
    "string": ["SET K w"],
    "number": ["SET K n"],
    "list": ["RPUSH K m m m w"],
    "set": ["SADD K m m m"],
    "hash": ["HSET K m w m n m 5"],
    "zset": ["ZADD K 1 m 2 m 2.5 m"],
    "none": [],
}


class Script:
    """A script made from a seed: its text, its keys with their types, its words and the commands before it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.types = self.random.choices(TYPES, k=4)
        # Keys of one slot, and new ones for each script.
        self.keys = [f"{{s{seed}}}:{kind}{at}" for at, kind in enumerate(self.types)]
        self.words = [self.word() for _ in range(3)]
        self.before = [
            self.filled(line, lambda: key).split("\0")
            for key, kind in zip(self.keys, self.types)
            for line in CONTENTS[kind]
        ]
        self.names = 0
        self.depth = 0
        scope = {"any": [], "table": []}
        statements = [self.statement(scope) for _ in range(self.random.randint(2, 6))]
        self.text = HEAD + "".join(statements) + self.end(scope)

    # Words of commands.

    def word(self):
        return self.random.choice(WORDS).replace("\\t", "\t")

    def filled(self, line, key):
        """A command with words in its places, divided by zero bytes."""
        draw = {
            "K": key,
            "k": lambda: self.random.choice(self.keys),
            "w": self.word,
            "n": lambda: str(self.random.randint(-3, 4)),
            "m": lambda: self.random.choice("abcd"),
            "f": lambda: self.random.choice(["-1", "0", "1.5", "2", "3"]),
        }
        return "\0".join(draw.get(word, lambda word=word: word)() for word in line.split(" "))

    def command(self, scope, function):
        """A call of a command, with some of its words computed."""
        at = self.random.randrange(len(self.keys))
        # An error that is not caught ends the script, so most of these do not fail.
        fitting = 0.97 if function == "call" else 0.7
        kind = self.types[at] if self.random.random() < fitting else self.random.choice(TYPES)
        kind = "string" if kind == "none" and function == "call" and self.random.random() < 0.9 else kind
        parts = []
        for word in self.random.choice(COMMANDS[kind]).split(" "):
            drawn = self.filled(word, lambda: self.keys[at])
            if drawn in self.keys:
                parts.append(f"KEYS[{self.keys.index(drawn) + 1}]")
            elif word == "w" and self.random.random() < 0.5:
                parts.append(self.string(scope, 1))
            elif word == "n" and self.random.random() < 0.5:
                parts.append(f"math.floor({self.number(scope, 1)} % 7) - 2")
            else:
                parts.append(quoted(drawn))
        return f"redis.{function}({', '.join(parts)})"

    # Expressions. The level bounds how deep they are.

    def one(self, *makers):
        return self.random.choice(makers)()

    def number(self, scope, level):
        if level <= 0:
            return self.random.choice(["0", "1", "2", "7", "0.1", "2.5", "1e15", "123456789012", "-3"])
        a, b = (lambda: self.number(scope, level - 1)), (lambda: self.string(scope, level - 1))
        t = lambda: self.table(scope, level - 1)  # noqa: E731
        return self.one(
            a, a,
            lambda: f"({a()} {self.random.choice('+-*')} {a()})",
            lambda: f"({a()} {self.random.choice('/%')} {self.random.choice(['2', '3', '0.7', '-4'])})",
            lambda: f"(0 - {a()} ^ 2)",
            lambda: f"#({b()})",
            lambda: f"#({t()})",
            lambda: f"number({b()})",
            lambda: f"math.{self.random.choice(['floor', 'ceil', 'abs'])}({a()})",
            lambda: f"math.{self.random.choice(['max', 'min'])}({a()}, {a()})",
            lambda: f"bit.{self.random.choice(['band', 'bor', 'bxor'])}({a()} % 1000, {a()} % 1000)",
            lambda: f"bit.{self.random.choice(['lshift', 'rshift', 'arshift', 'rol'])}({a()} % 1000, 3)",
            lambda: f"(string.byte({b()}) or 0)",
            lambda: f"(string.find({b()}, {b()}, 1, true) or 0)",
            lambda: f"select('#', unpack({t()}))",
        )  # fmt: skip

    def string(self, scope, level):
        if level <= 0:
            at = self.random.randint(1, 3)
            return self.random.choice([quoted(self.word()), f"ARGV[{at}]", f"KEYS[{at}]", f"text(ARGV[{at + 2}])"])
        a, b = (lambda: self.string(scope, level - 1)), (lambda: self.number(scope, level - 1))
        t = lambda: self.table(scope, level - 1)  # noqa: E731
        return self.one(
            a,
            lambda: f"({a()} .. {a()})",
            lambda: f"({a()} .. {b()} .. {a()})",
            lambda: f"({b()} .. '')",
            lambda: f"string.{self.random.choice(['upper', 'lower', 'reverse'])}({a()})",
            lambda: f"string.sub({a()}, {self.random.randint(-3, 3)}, {self.random.randint(-3, 5)})",
            lambda: f"string.rep({a()}, {self.random.randint(0, 3)})",
            lambda: f"string.format('%s/%d/%.3f/%q', {a()}, {b()} % 1000, {b()} % 1000, {a()})",
            lambda: f"string.format('%5s|%-6s|%03d|%x|%g', {a()}, {b()}, {b()} % 50, {b()} % 50 - {b()} % 1, {b()})",
            lambda: f"(string.gsub({a()}, '{self.pattern()}', {self.replacement()}))",
            lambda: f"(string.match({a()}, '{self.pattern()}') or 'none')",
            lambda: f"tostring({self.random.choice([a, b])()})",
            lambda: f"type({self.any(scope, level - 1)})",
            lambda: f"table.concat({self.flat(scope, level - 1)}, {a()})",
            lambda: f"cjson.encode({self.json(scope, level - 1)})",
            lambda: f"show(cjson.decode(cjson.encode({self.json(scope, level - 1)})))",
            lambda: f"show({{cmsgpack.unpack(cmsgpack.pack({self.json(scope, level - 1)}, {a()}))}})",
            lambda: f"show({{struct.unpack('>I2s', struct.pack('>I2s', {self.random.randint(0, 999)}, {a()}))}})",
            lambda: f"redis.sha1hex({a()})",
            lambda: f"show({t()})",
            lambda: f"text({self.command(scope, 'pcall')})",
        )  # fmt: skip

    def pattern(self):
        return self.random.choice(["%a", "%w*", "%d+", "(.)(.)", "^a", "[a-c]", "%s*$", "l+", "b-c", "%%", "()b", "%f[%w]"])

    def replacement(self):
        return self.random.choice([
            "'x'", "'<%0>'", "'%1%1'", "{a = 1, b = 'B', c = false}", "function(x) return x .. '!' end",
            "function(x, y) if y then return y .. x end end", "function() return nil end", "string.upper",
            "function(x) return redis.call('EXISTS', KEYS[1]) .. text(x) end",
        ])  # fmt: skip

    def flat(self, scope, level):
        parts = [self.one(lambda: self.number(scope, level), lambda: self.string(scope, level)) for _ in range(3)]
        return "{" + ", ".join(parts) + "}"

    def json(self, scope, level):
        return self.one(
            lambda: self.flat(scope, level),
            lambda: f"{{{self.random.choice(['a', 'key', 'x1'])} = {self.flat(scope, level)}}}",
            lambda: f"{{{self.flat(scope, level)}, true, false, cjson.null}}",
            lambda: self.string(scope, level),
            lambda: self.number(scope, level),
            lambda: "{}",
        )

    def table(self, scope, level):
        if scope["table"] and self.random.random() < 0.5:
            return self.random.choice(scope["table"])
        if level <= 0:
            return self.random.choice(["{}", "{1, 2, 3}", "{'b', 'a'}", "KEYS", "ARGV", "{{1}, {'x'}}"])
        return self.one(
            lambda: self.flat(scope, level - 1),
            lambda: f"{{{self.any(scope, level - 1)}, {self.any(scope, level - 1)}}}",
            lambda: f"sorted(redis.pcall('SMEMBERS', KEYS[{self.random.randint(1, 4)}]))",
            lambda: f"{{pcall(redis.call, 'GET', KEYS[{self.random.randint(1, 4)}])}}",
        )

    def any(self, scope, level):
        makers = [
            lambda: self.number(scope, level),
            lambda: self.string(scope, level),
            lambda: self.table(scope, level),
            lambda: self.command(scope, "pcall"),
            lambda: self.command(scope, "call"),
            lambda: self.random.choice(["true", "false"]),
            lambda: self.condition(scope, level - 1),
        ]
        if scope["any"]:
            makers += [lambda: self.random.choice(scope["any"])] * 4
        return self.one(*makers)

    def condition(self, scope, level):
        a, b = (lambda: self.number(scope, level)), (lambda: self.string(scope, level))
        return self.one(
            lambda: f"({a()} {self.random.choice(['<', '<=', '==', '~=', '>'])} {a()})",
            lambda: f"({b()} {self.random.choice(['<', '==', '~='])} {b()})",
            lambda: f"not ({self.any(scope, level - 1)})",
            lambda: f"({self.any(scope, level - 1)} == false)",
            lambda: f"(type({self.any(scope, level - 1)}) == '{self.random.choice(['table', 'string', 'number'])}')",
        )

    # Statements.

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def block(self, scope, statements):
        scope = {kind: list(names) for kind, names in scope.items()}
        return "".join(self.statement(scope) for _ in range(statements))

    def inner(self, scope):
        self.depth += 1
        text = self.block(scope, self.random.randint(1, 3))
        self.depth -= 1
        return text

    def statement(self, scope):
        simple = [
            lambda: self.local(scope),
            lambda: self.local(scope),
            lambda: self.command(scope, "call") + "\n",
            lambda: self.command(scope, "pcall") + "\n",
            lambda: self.sorting(scope),
            lambda: self.inserting(scope),
        ]
        if self.depth >= 2:
            return self.one(*simple)
        nested = [
            lambda: f"if {self.condition(scope, 2)} then\n{self.inner(scope)}else\n{self.inner(scope)}end\n",
            lambda: f"if {self.condition(scope, 1)} then\n{self.inner(scope)}{self.end(scope)}end\n",
            lambda: f"for i = 1, {self.random.randint(1, 3)} do\n{self.inner(scope)}end\n",
            lambda: self.caught(scope),
            lambda: self.coroutine(scope),
        ]
        return self.one(*simple, *nested)

    def local(self, scope):
        kind = self.random.choice(["any", "any", "table"])
        value = self.any(scope, 3) if kind == "any" else self.flat(scope, 2)
        name = self.name()
        scope[kind].append(name)
        return f"local {name} = {value}\n"

    def sorting(self, scope):
        name = self.name()
        scope["table"].append(name)
        items = ", ".join(str(self.random.randint(0, 40)) for _ in range(self.random.randint(1, 12)))
        # Items that the function takes for equal stay in an order that both have.
        less = self.random.choice(["", ", function(a, b) return a > b end", ", function(a, b) return a % 5 < b % 5 end"])
        return f"local {name} = {{{items}}}\ntable.sort({name}{less})\n"

    def inserting(self, scope):
        if not scope["table"]:
            return self.local(scope)
        name = self.random.choice(scope["table"])
        value = self.one(lambda: self.number(scope, 1), lambda: self.string(scope, 1))
        return self.random.choice([f"table.insert({name}, {value})\n", f"table.insert({name}, 1, {value})\n",
                                   f"table.remove({name})\n"])  # fmt: skip

    def caught(self, scope):
        ok, value = self.name(), self.name()
        raised = self.random.choice(["", "", "error('bad')\n", "error({err = 'MINE bad'})\n", "local x = nil + 1\n"])
        body = self.inner(scope) + raised + f"return {self.any(scope, 2)}\n"
        scope["any"].append(ok)
        shown = f"if not {ok} then {value} = code({value}) end\n"
        scope["any"].append(value)
        return f"local {ok}, {value} = pcall(function()\n{body}end)\n{shown}"

    def coroutine(self, scope):
        name, first, second = self.name(), self.name(), self.name()
        body = f"local got = coroutine.yield({self.any(scope, 2)})\n{self.inner(scope)}return got\n"
        lines = [
            f"local {name} = coroutine.create(function()\n{body}end)",
            f"local _, {first} = coroutine.resume({name})",
            f"if coroutine.status({name}) == 'dead' then {first} = code({first}) end",
            f"local ok, {second} = coroutine.resume({name}, {self.any(scope, 1)})",
            f"if not ok then {second} = code({second}) end",
        ]
        scope["any"] += [first, second]
        return "\n".join(lines) + "\n"

    def end(self, scope):
        return "do return " + self.one(
            lambda: self.any(scope, 2),
            lambda: f"show({self.any(scope, 3)})",
            lambda: f"{{{self.any(scope, 2)}, {self.any(scope, 2)}, {{{self.any(scope, 1)}}}}}",
            lambda: self.number(scope, 3),
            lambda: f"redis.error_reply({self.random.choice(['MINE is bad', 'single', '-DASH x'])!r})",
            lambda: f"redis.status_reply({self.random.choice(['FINE', 'so so'])!r})",
            lambda: self.random.choice(["nil", "true", "false", "{ok = 'x'}", "{err = 'MY x'}", "{1, nil, 3}", "{}"]),
        ) + " end\n"


def quoted(word):
    """A literal of a script."""
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t") + "'"
