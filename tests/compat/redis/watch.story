# What breaks a watch, and what does not: a write that leaves everything as it was.

== persist without a time-out
SET k v
-> +OK
WATCH k
-> +OK
other: PERSIST k
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== persist with a time-out
SET k v EX 100
-> +OK
WATCH k
-> +OK
other: PERSIST k
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== an expiry
SET k v
-> +OK
WATCH k
-> +OK
other: EXPIRE k 100
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== an expiry that is refused XX
SET k v
-> +OK
WATCH k
-> +OK
other: EXPIRE k 100 XX
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== an expiry that is refused NX
SET k v EX 100
-> +OK
WATCH k
-> +OK
other: PEXPIRE k 100000 NX
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== an expiry that is refused GT
SET k v
-> +OK
WATCH k
-> +OK
other: EXPIREAT k 9999999999 GT
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== an expiry that is refused LT
SET k v EX 100
-> +OK
WATCH k
-> +OK
other: PEXPIREAT k 99999999999990 LT
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== set over itself
SET k v
-> +OK
WATCH k
-> +OK
other: SET k v
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== set NX on what is there
SET k v
-> +OK
WATCH k
-> +OK
other: SET k w NX
-> $-1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== set NX on another type
SADD k v
-> :1
WATCH k
-> +OK
other: SET k w NX
-> $-1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== setnx on another type
SADD k v
-> :1
WATCH k
-> +OK
other: SETNX k w
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== set XX GET on what is there
SET k v
-> +OK
WATCH k
-> +OK
other: SET k w XX GET
-> $"v"
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== msetnx on what is there
SET k v
-> +OK
WATCH k
-> +OK
other: MSETNX k w j w
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== getex without options
SET k v
-> +OK
WATCH k
-> +OK
other: GETEX k
-> $"v"
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== getex persist without a time-out
SET k v
-> +OK
WATCH k
-> +OK
other: GETEX k PERSIST
-> $"v"
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== getex persist with a time-out
SET k v EX 100
-> +OK
WATCH k
-> +OK
other: GETEX k PERSIST
-> $"v"
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== append of nothing
SET k v
-> +OK
WATCH k
-> +OK
other: APPEND k ""
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== incrby 0
SET k 1
-> +OK
WATCH k
-> +OK
other: INCRBY k 0
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== incr of no integer
SET k v
-> +OK
WATCH k
-> +OK
other: INCR k
-> -ERR value is not an integer or out of range
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== setrange of nothing
SET k v
-> +OK
WATCH k
-> +OK
other: SETRANGE k 0 ""
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== setrange of the same
SET k v
-> +OK
WATCH k
-> +OK
other: SETRANGE k 0 v
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== lrem of what is not there
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LREM k 0 nosuch
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== lrem of what is there
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LREM k 0 a
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== ltrim that keeps all
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LTRIM k 0 -1
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== linsert without the pivot
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LINSERT k BEFORE x y
-> :-1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== lset of the same
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LSET k 0 a
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== lset out of range
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LSET k 5 a
-> -ERR index out of range
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== lpop of none
RPUSH k a b
-> :2
WATCH k
-> +OK
other: LPOP k 0
-> *0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== lmove round one element
RPUSH k a
-> :1
WATCH k
-> +OK
other: LMOVE k k LEFT RIGHT
-> $"a"
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== sadd of what is there
SADD k a
-> :1
WATCH k
-> +OK
other: SADD k a
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== sadd of one that is there and one that is not
SADD k a
-> :1
WATCH k
-> +OK
other: SADD k a b
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== srem of what is not there
SADD k a
-> :1
WATCH k
-> +OK
other: SREM k b
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== spop of none
SADD k a
-> :1
WATCH k
-> +OK
other: SPOP k 0
-> *0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== smove of what is not there
SADD k a
-> :1
WATCH k
-> +OK
other: SMOVE k j b
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== smove onto itself
SADD k a
-> :1
WATCH k
-> +OK
other: SMOVE k k a
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zadd of the same
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZADD k 1 a
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zadd of the same CH
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZADD k CH 1 a
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zadd NX of what is there
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZADD k NX 2 a
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zadd GT of less
ZADD k 5 a
-> :1
WATCH k
-> +OK
other: ZADD k GT 2 a
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zadd XX of what is not there
ZADD k 5 a
-> :1
WATCH k
-> +OK
other: ZADD k XX 2 b
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zadd of another score
ZADD k 5 a
-> :1
WATCH k
-> +OK
other: ZADD k 2 a
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== zincrby 0
ZADD k 5 a
-> :1
WATCH k
-> +OK
other: ZINCRBY k 0 a
-> $"5"
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zrem of what is not there
ZADD k 5 a
-> :1
WATCH k
-> +OK
other: ZREM k b
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zremrangebyscore of none
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZREMRANGEBYSCORE k 5 9
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zremrangebyscore of one
ZADD k 6 a 1 b
-> :2
WATCH k
-> +OK
other: ZREMRANGEBYSCORE k 5 9
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== zremrangebyrank of none
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZREMRANGEBYRANK k 5 9
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zremrangebylex of none
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZREMRANGEBYLEX k [x [y
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== zpopmin of none
ZADD k 1 a
-> :1
WATCH k
-> +OK
other: ZPOPMIN k 0
-> *0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== hset of the same
HSET k f v
-> :1
WATCH k
-> +OK
other: HSET k f v
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== hsetnx of what is there
HSET k f v
-> :1
WATCH k
-> +OK
other: HSETNX k f w
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== hdel of what is not there
HSET k f v
-> :1
WATCH k
-> +OK
other: HDEL k g
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== hincrby 0
HSET k f 1
-> :1
WATCH k
-> +OK
other: HINCRBY k f 0
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== rename onto itself
SET k v
-> +OK
WATCH k
-> +OK
other: RENAME k k
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== renamenx onto what is there
SET k v
-> +OK
SET j v
-> +OK
WATCH k
-> +OK
other: RENAMENX j k
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== copy onto what is there
SET k v
-> +OK
SET j v
-> +OK
WATCH k
-> +OK
other: COPY j k
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== flushall with the key
SET k v
-> +OK
WATCH k
-> +OK
other: FLUSHALL
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== flushall without the key
WATCH k
-> +OK
other: FLUSHALL
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== flushall without the key and with others
SET a v
-> +OK
SET b v
-> +OK
SET c v
-> +OK
WATCH k
-> +OK
other: FLUSHALL
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== a removal of an absent key
WATCH k
-> +OK
other: DEL k
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== a pop from an absent key
WATCH k
-> +OK
other: LPOP k
-> $-1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== a store of nothing under an absent key
WATCH k
-> +OK
other: SINTERSTORE k x y
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== a key that is made and removed
WATCH k
-> +OK
other: SETEX k 100 v
-> +OK
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

== touch
SET k v
-> +OK
WATCH k
-> +OK
other: TOUCH k
-> :1
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== a write of the wrong type
SET k v
-> +OK
WATCH k
-> +OK
other: LPUSH k a
-> -WRONGTYPE Operation against a key holding the wrong kind of value
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG

== setbit of another bit
SET k v
-> +OK
WATCH k
-> +OK
other: SETBIT k 0 1
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *-1

# 7.2 leaves a watch alone if the bit is what it was.
== setbit of the same bit
SET k v
-> +OK
WATCH k
-> +OK
other: SETBIT k 0 0
-> :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG
7.2 -> *1 +PONG

# What is watched is looked at in a transaction as well.
== a transaction that changes nothing
SET k v
-> +OK
SET j v
-> +OK
WATCH k
-> +OK
other: MULTI
-> +OK
other: PERSIST k
-> +QUEUED
other: PERSIST j
-> +QUEUED
other: EXEC
-> *2 :0 :0
MULTI
-> +OK
PING
-> +QUEUED
EXEC
-> *1 +PONG
