# Databases: names are of the one that is selected, and nothing leads out of it by accident.

== names are of a database
SET k zero
-> +OK
SELECT 3
-> +OK
GET k
-> $-1
SET k three
-> +OK
DBSIZE
-> :1
other: GET k
-> $"zero"
other: DBSIZE
-> :1
SELECT 15
-> +OK
DBSIZE
-> :0
SELECT 16
-> -ERR DB index is out of range
SELECT -1
-> -ERR DB index is out of range
SET k fifteen
-> +OK
SELECT 0
-> +OK
MGET k k
-> *2 $"zero" $"zero"

== all keys are those of the database
MSET a 0 b 0
-> +OK
SELECT 2
-> +OK
KEYS *
-> *0
RANDOMKEY
-> $-1
SCAN 0
-> *2 $"0" *0
SADD c 2
-> :1
KEYS *
-> *1 $"c"
RANDOMKEY
-> $"c"
SCAN 0 COUNT 1000
-> *2 $"0" *1 $"c"
SCAN 0 COUNT 1000 TYPE set MATCH c*
-> *2 $"0" *1 $"c"
SCAN 0 COUNT 1000 TYPE string
-> *2 $"0" *0
FLUSHDB
-> +OK
DBSIZE
-> :0
other: DBSIZE
-> :2
FLUSHALL
-> +OK
other: DBSIZE
-> :0

== flushall reaches all databases
SET a 0
-> +OK
SELECT 1
-> +OK
SET a 1
-> +OK
SELECT 2
-> +OK
FLUSHALL
-> +OK
SELECT 1
-> +OK
DBSIZE
-> :0
SELECT 0
-> +OK
DBSIZE
-> :0

== a key moves
SET k v PX 100000000
-> +OK
MOVE k 0
-> -ERR source and destination objects are the same
MOVE k 16
-> -ERR DB index is out of range
MOVE k x
-> -ERR value is not an integer or out of range
MOVE none 1
-> :0
MOVE k 1
-> :1
EXISTS k
-> :0
SET k other
-> +OK
MOVE k 1
-> :0
GET k
-> $"other"
SELECT 1
-> +OK
GET k
-> $"v"
EXPIRE k 1000
-> :1
MOVE k 2
-> :1
SELECT 2
-> +OK
PERSIST k
-> :1

== a key is copied
SADD s a
-> :1
COPY s s DB 0
-> -ERR source and destination objects are the same
COPY s s DB 16
-> -ERR DB index is out of range
COPY s s DB 5
-> :1
COPY s s DB 5
-> :0
SADD s b
-> :1
COPY s s DB 5 REPLACE
-> :1
COPY s t DB 5
-> :1
SELECT 5
-> +OK
SCARD s
-> :2
COPY s u
-> :1
COPY u w DB 0
-> :1
SELECT 0
-> +OK
SCARD w
-> :2
EXISTS u t
-> :0

== a transaction selects
SET k zero
-> +OK
MULTI
-> +OK
SELECT 4
-> +QUEUED
SET k four
-> +QUEUED
DBSIZE
-> +QUEUED
KEYS *
-> +QUEUED
SELECT 16
-> +QUEUED
GET k
-> +QUEUED
SELECT 0
-> +QUEUED
GET k
-> +QUEUED
SELECT 4
-> +QUEUED
EXEC
-> *9 +OK +OK :1 *1 $"k" -ERR DB index is out of range $"four" +OK $"zero" +OK
GET k
-> $"four"

== a transaction that does not take place selects nothing
SET k zero
-> +OK
MULTI
-> +OK
SELECT 4
-> +QUEUED
SET k four
-> +QUEUED
DISCARD
-> +OK
GET k
-> $"zero"
WATCH k
-> +OK
other: SET k changed
-> +OK
MULTI
-> +OK
SELECT 4
-> +QUEUED
EXEC
-> *-1
GET k
-> $"changed"
MULTI
-> +OK
SELECT 4
-> +QUEUED
GET
-> -ERR wrong number of arguments for 'get' command
EXEC
-> -EXECABORT Transaction discarded because of previous errors.
GET k
-> $"changed"

== watch is about the key of the database
SELECT 1
-> +OK
WATCH k
-> +OK
other: SET k zero
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG
WATCH k
-> +OK
SELECT 0
-> +OK
other: SELECT 1
-> +OK
other: SET k one
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== flushdb breaks the watches of its database
SET k zero
-> +OK
SELECT 1
-> +OK
SET k one
-> +OK
WATCH k
-> +OK
other: FLUSHDB
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG
WATCH k
-> +OK
other: SELECT 1
-> +OK
other: FLUSHDB
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== a list is waited for in its database
SELECT 1
-> +OK
BLPOP a list 0
-> ...
other: RPUSH list zero
-> :1
other: SELECT 1
-> +OK
other: RPUSH list one
-> :1
me <- *2 $"list" $"one"
BLMPOP 0 1 list LEFT
-> ...
other: RPUSH list two
-> :1
me <- *2 $"list" *1 $"two"
BZPOPMIN z 0
-> ...
other: ZADD z 1 m
-> :1
me <- *3 $"z" $"m" $"1"
XREAD BLOCK 0 STREAMS x $
-> ...
other: XADD x 1-1 f v
-> $"1-1"
me <- *1 *2 $"x" *1 *2 $"1-1" *2 $"f" $"v"
BRPOPLPUSH from to 0
-> ...
other: RPUSH from e
-> :1
me <- $"e"
other: LRANGE to 0 -1
-> *1 $"e"

== a blocked key that is moved in
SELECT 1
-> +OK
BLPOP list 0
-> ...
other: RPUSH list e
-> :1
other: MOVE list 1
-> :1
me <- *2 $"list" $"e"

== names in replies are those that clients know
SELECT 9
-> +OK
RPUSH l a b
-> :2
LMPOP 2 none l LEFT
-> *2 $"l" *1 $"a"
ZADD z 1 a
-> :1
ZMPOP 1 z MIN
-> *2 $"z" *1 *2 $"a" $"1"
XREADGROUP GROUP g c STREAMS x >
-> -NOGROUP No such key 'x' or consumer group 'g' in XREADGROUP with GROUP option
XADD x 1-1 f v
-> $"1-1"
XREAD STREAMS x 0
-> *1 *2 $"x" *1 *2 $"1-1" *2 $"f" $"v"
XGROUP CREATE x g 0
-> +OK
XREADGROUP GROUP g c STREAMS x >
-> *1 *2 $"x" *1 *2 $"1-1" *2 $"f" $"v"
OBJECT ENCODING none
-> $-1

== scripts run in the database of their caller
SET k zero
-> +OK
SELECT 2
-> +OK
SET k two
-> +OK
EVAL "return {KEYS[1], redis.call('get', KEYS[1]), redis.call('keys', '*'), redis.call('dbsize')}" 1 k
-> *4 $"k" $"two" *1 $"k" :1
EVAL "redis.call('set', 'made', 1) return redis.call('exists', 'made')" 0
-> :1
EVAL "local a = redis.call('get', 'k') redis.call('select', 0) return {a, redis.call('get', 'k')}" 0
-> *2 $"two" $"zero"
GET k
-> $"two"
EVAL "return redis.pcall('select', 16)" 0
-> -ERR DB index is out of range
EVAL "return redis.call('move', 'made', 0)" 0
-> :1
EVAL "redis.call('copy', 'k', 'copied', 'DB', 0) return redis.call('keys', 'copied')" 0
-> *0
SELECT 0
-> +OK
MGET made copied k
-> *3 $"1" $"two" $"zero"

== a new connection, and one that is reset
SELECT 7
-> +OK
SET k seven
-> +OK
RESET
-> +RESET
GET k
-> $-1
