# Commands about the server and about all keys are queued and carried out by EXEC.
== all keys in a transaction
SET a 1
-> +OK
MULTI
-> +OK
SET b 2
-> +QUEUED
DBSIZE
-> +QUEUED
KEYS b
-> +QUEUED
FLUSHALL
-> +QUEUED
DBSIZE
-> +QUEUED
RANDOMKEY
-> +QUEUED
SET c 3
-> +QUEUED
DBSIZE
-> +QUEUED
RANDOMKEY
-> +QUEUED
KEYS *
-> +QUEUED
SCAN 0
-> +QUEUED
EXEC
-> *11 +OK :2 *1 $"b" +OK :0 $-1 +OK :1 $"c" *1 $"c" *2 $"0" *1 $"c"
DBSIZE
-> :1
KEYS *
-> *1 $"c"

== a flush and what follows from the state after it
RPUSH a x
-> :1
RPUSH c y
-> :1
MULTI
-> +OK
FLUSHDB ASYNC
-> +QUEUED
LMOVE a b LEFT LEFT
-> +QUEUED
RPUSH a z
-> +QUEUED
LMOVE a b LEFT LEFT
-> +QUEUED
RENAME b d
-> +QUEUED
DBSIZE
-> +QUEUED
EXEC
-> *6 +OK $-1 :1 $"z" +OK :1
LRANGE d 0 -1
-> *1 $"z"
EXISTS a b c d
-> :1

== a watch keeps a flush away
SET a 1
-> +OK
SET b 1
-> +OK
WATCH a
-> +OK
other: SET a 2
-> +OK
MULTI
-> +OK
FLUSHALL
-> +QUEUED
EXEC
-> *-1
DBSIZE
-> :2

== a page of a type, with a pattern
SET a 1
-> +OK
RPUSH b 1
-> :1
MULTI
-> +OK
SCAN 0 TYPE list COUNT 100
-> +QUEUED
SCAN 0 MATCH a COUNT 100
-> +QUEUED
EXEC
-> *2 *2 $"0" *1 $"b" *2 $"0" *1 $"a"

== wrong words fail alone
SET a 1
-> +OK
MULTI
-> +OK
FLUSHALL nonsense
-> +QUEUED
SCAN x
-> +QUEUED
SCAN 0 COUNT 0
-> +QUEUED
SCAN 0 NOSUCH 1
-> +QUEUED
DBSIZE
-> +QUEUED
EXEC
-> *5 -ERR syntax error -ERR invalid cursor -ERR syntax error -ERR syntax error :1

== too many or few words
MULTI
-> +OK
DBSIZE x
-> -ERR wrong number of arguments for 'dbsize' command
EXEC
-> -EXECABORT Transaction discarded because of previous errors.

== about the connection
CLIENT SETNAME me
-> +OK
MULTI
-> +OK
CLIENT GETNAME
-> +QUEUED
CLIENT SETNAME you
-> +QUEUED
CLIENT GETNAME
-> +QUEUED
ACL WHOAMI
-> +QUEUED
PUBSUB CHANNELS
-> +QUEUED
PUBSUB NUMPAT
-> +QUEUED
PUBSUB NUMSUB x
-> +QUEUED
SET k v
-> +QUEUED
EXEC
-> *8 $"me" +OK $"you" $"default" *0 :0 *2 $"x" :0 +OK
GET k
-> $"v"

== a sub-command that does not exist is refused at once
MULTI
-> +OK
CLIENT NOSUCH
-> -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
SET k v
-> +QUEUED
EXEC
-> -EXECABORT Transaction discarded because of previous errors.
GET k
-> $-1

== settings are read and changed in order
MULTI
-> +OK
CONFIG SET maxmemory 1000000000
-> +QUEUED
CONFIG GET maxmemory
-> +QUEUED
CONFIG SET maxmemory 0
-> +QUEUED
CONFIG GET maxmemory
-> +QUEUED
EXEC
-> *4 +OK *2 $"maxmemory" $"1000000000" +OK *2 $"maxmemory" $"0"
