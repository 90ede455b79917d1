# Commands of the connection and of the server, with words that they do not take.
== transactions
EXEC
-> -ERR EXEC without MULTI
DISCARD
-> -ERR DISCARD without MULTI
# With words EXEC has conditions, as in Valkey 9.2.
EXEC x
-> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
here -> -ERR EXEC without MULTI
MULTI x
-> -ERR wrong number of arguments for 'multi' command
MULTI
-> +OK
EXEC x
-> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
here -> -EXECABORT Transaction discarded because of: syntax error in a condition: known are IFEQ key value, IFNE key value, XX key and NX key
SET k v
-> +OK
EXEC
-> -ERR EXEC without MULTI
GET k
-> $"v"

== words that end a transaction
MULTI
-> +OK
NOSUCH
-> -ERR unknown command 'NOSUCH', with args beginning with: 
SET k v
-> +QUEUED
EXEC
-> -EXECABORT Transaction discarded because of previous errors.
MULTI
-> +OK
GET
-> -ERR wrong number of arguments for 'get' command
EXEC
-> -EXECABORT Transaction discarded because of previous errors.
MULTI
-> +OK
MULTI
-> -ERR MULTI calls can not be nested
WATCH k
-> -ERR WATCH inside MULTI is not allowed
SET k v
-> +QUEUED
EXEC
-> *1 +OK
MULTI
-> +OK
DISCARD x
-> -ERR wrong number of arguments for 'discard' command
EXEC
-> -EXECABORT Transaction discarded because of previous errors.
WATCH
-> -ERR wrong number of arguments for 'watch' command
UNWATCH x
-> -ERR wrong number of arguments for 'unwatch' command
UNWATCH
-> +OK
MULTI
-> +OK
UNWATCH
-> +QUEUED
DISCARD
-> +OK

== a command that fails when it is carried out
SET k v
-> +OK
MULTI
-> +OK
INCR k
-> +QUEUED
LPUSH k x
-> +QUEUED
SET j 1
-> +QUEUED
EXEC
-> *3 -ERR value is not an integer or out of range -WRONGTYPE Operation against a key holding the wrong kind of value +OK

== copies
COPY k k
-> -ERR source and destination objects are the same
SET k v
-> +OK
COPY k k
-> -ERR source and destination objects are the same
COPY k k REPLACE
-> -ERR source and destination objects are the same
COPY k j DB 0
-> :1
COPY k j DB 0
-> :0
COPY k j REPLACE DB 0
-> :1
COPY k j DB abc
-> -ERR value is not an integer or out of range
COPY k j DB
-> -ERR syntax error
COPY k j NOSUCH
-> -ERR syntax error
COPY nosuch j
-> :0
RENAME k k
-> +OK
RENAME nosuch nosuch
-> -ERR no such key
RENAMENX k k
-> :0
RENAMENX nosuch k
-> -ERR no such key

== settings
CONFIG SET maxmemory 1 maxmemory 2
-> -ERR CONFIG SET failed (possibly related to argument 'maxmemory') - duplicate parameter
CONFIG SET maxmemory
-> -ERR wrong number of arguments for 'config|set' command
CONFIG SET nosuch 1
-> -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
CONFIG SET maxmemory abc
-> -ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value
CONFIG GET
-> -ERR wrong number of arguments for 'config|get' command
CONFIG GET nosuch
-> *0
CONFIG NOSUCH
-> -ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.
CONFIG RESETSTAT x
-> -ERR wrong number of arguments for 'config|resetstat' command
CONFIG
-> -ERR wrong number of arguments for 'config' command

== databases
SELECT 0
-> +OK
SELECT abc
-> -ERR value is not an integer or out of range
SELECT 1000000
-> -ERR DB index is out of range
SELECT
-> -ERR wrong number of arguments for 'select' command

== talk
PING a b
-> -ERR wrong number of arguments for 'ping' command
PING a
-> $"a"
ECHO
-> -ERR wrong number of arguments for 'echo' command
ECHO a b
-> -ERR wrong number of arguments for 'echo' command
TIME x
-> -ERR wrong number of arguments for 'time' command
QUIT x
-> +OK

== the connection
CLIENT
-> -ERR wrong number of arguments for 'client' command
CLIENT NOSUCH
-> -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
CLIENT ID x
-> -ERR wrong number of arguments for 'client|id' command
CLIENT GETNAME x
-> -ERR wrong number of arguments for 'client|getname' command
CLIENT SETNAME
-> -ERR wrong number of arguments for 'client|setname' command
CLIENT SETNAME "a b"
-> -ERR Client names cannot contain spaces, newlines or special characters.
CLIENT REPLY
-> -ERR wrong number of arguments for 'client|reply' command
CLIENT REPLY NOSUCH
-> -ERR syntax error
CLIENT KILL
-> -ERR wrong number of arguments for 'client|kill' command
CLIENT KILL 1.2.3.4:5
-> -ERR No such client
CLIENT KILL ID abc
-> -ERR client-id should be greater than 0
CLIENT KILL ID 0
-> -ERR client-id should be greater than 0
CLIENT KILL ID 999999
-> :0
CLIENT KILL NOSUCH x
-> -ERR syntax error
CLIENT KILL TYPE nosuch
-> -ERR Unknown client type 'nosuch'
# Users are in the store; whether there is one is not looked up.
CLIENT KILL USER nosuch
-> -ERR No such user 'nosuch'
here -> :0
CLIENT KILL SKIPME nosuch
-> -ERR syntax error
CLIENT LIST TYPE nosuch
-> -ERR Unknown client type 'nosuch'
CLIENT LIST ID abc
-> -ERR Invalid client ID
CLIENT LIST ID
-> -ERR syntax error
CLIENT LIST NOSUCH
-> -ERR syntax error
CLIENT UNBLOCK
-> -ERR wrong number of arguments for 'client|unblock' command
CLIENT UNBLOCK abc
-> -ERR value is not an integer or out of range
CLIENT UNBLOCK 999999
-> :0
CLIENT UNBLOCK 999999 NOSUCH
-> -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
CLIENT NO-EVICT nosuch
-> -ERR syntax error
CLIENT NO-EVICT
-> -ERR wrong number of arguments for 'client|no-evict' command
HELLO abc
-> -ERR Protocol version is not an integer or out of range
HELLO 1
-> -NOPROTO unsupported protocol version
HELLO 4
-> -NOPROTO unsupported protocol version
HELLO 2 NOSUCH
-> -ERR Syntax error in HELLO option 'NOSUCH'
HELLO 2 AUTH a
-> -ERR Syntax error in HELLO option 'AUTH'
HELLO 2 SETNAME
-> -ERR Syntax error in HELLO option 'SETNAME'
HELLO 2 SETNAME "a b"
-> -ERR Client names cannot contain spaces, newlines or special characters.
RESET x
-> -ERR wrong number of arguments for 'reset' command

== subscriptions
PUBSUB
-> -ERR wrong number of arguments for 'pubsub' command
PUBSUB NOSUCH
-> -ERR unknown subcommand 'NOSUCH'. Try PUBSUB HELP.
PUBSUB CHANNELS a b
-> -ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.
PUBSUB NUMPAT x
-> -ERR wrong number of arguments for 'pubsub|numpat' command
PUBSUB NUMSUB
-> *0
PUBLISH a
-> -ERR wrong number of arguments for 'publish' command
SUBSCRIBE
-> -ERR wrong number of arguments for 'subscribe' command
PSUBSCRIBE
-> -ERR wrong number of arguments for 'psubscribe' command

== users
ACL
-> -ERR wrong number of arguments for 'acl' command
ACL NOSUCH
-> -ERR unknown subcommand 'NOSUCH'. Try ACL HELP.
ACL WHOAMI x
-> -ERR wrong number of arguments for 'acl|whoami' command
ACL USERS x
-> -ERR wrong number of arguments for 'acl|users' command
ACL LIST x
-> -ERR wrong number of arguments for 'acl|list' command
ACL GETUSER
-> -ERR wrong number of arguments for 'acl|getuser' command
ACL GETUSER nosuch
-> $-1
ACL CAT nosuch
-> -ERR Unknown category 'nosuch'
ACL CAT a b
-> -ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.
ACL DRYRUN
-> -ERR wrong number of arguments for 'acl|dryrun' command
ACL DRYRUN nosuch GET k
-> -ERR User 'nosuch' not found
ACL DRYRUN default
-> -ERR wrong number of arguments for 'acl|dryrun' command
ACL DRYRUN default NOSUCH
-> -ERR Command 'NOSUCH' not found
ACL DRYRUN default GET
-> -ERR wrong number of arguments for 'get' command
ACL DRYRUN default GET k
-> +OK
AUTH
-> -ERR wrong number of arguments for 'auth' command
AUTH a b c
-> -ERR syntax error
AUTH nosuch
-> -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
AUTH nosuch nosuch
-> -WRONGPASS invalid username-password pair or user is disabled.

== what is told about commands
COMMAND NOSUCH
-> -ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.
COMMAND COUNT x
-> -ERR wrong number of arguments for 'command|count' command
COMMAND LIST x
-> -ERR syntax error
COMMAND LIST FILTERBY NOSUCH x
-> -ERR syntax error
COMMAND GETKEYS
-> -ERR wrong number of arguments for 'command|getkeys' command
# 7.2 takes a command without arguments there.
COMMAND GETKEYS NOSUCH
-> -ERR wrong number of arguments for 'command|getkeys' command
7.2 -> -ERR Invalid command specified
# 7.2 takes a command without arguments there.
COMMAND GETKEYS GET
-> -ERR wrong number of arguments for 'command|getkeys' command
7.2 -> -ERR Invalid number of arguments specified for command
# 7.2 takes a command without arguments there.
COMMAND GETKEYS PING
-> -ERR wrong number of arguments for 'command|getkeys' command
7.2 -> -ERR The command has no key arguments
COMMAND GETKEYS LMPOP abc k
-> -ERR Invalid number of arguments specified for command
COMMAND INFO nosuch
-> *1 $-1
COMMAND DOCS nosuch
-> *0

== waiting
WAIT a 0
-> -ERR value is not an integer or out of range
WAIT 0 a
-> -ERR timeout is not an integer or out of range
WAIT 0 -1
-> -ERR timeout is negative
WAIT 0
-> -ERR wrong number of arguments for 'wait' command

== what is asked of everything
FLUSHALL NOSUCH
-> -ERR syntax error
FLUSHALL ASYNC SYNC
-> -ERR syntax error
FLUSHDB NOSUCH
-> -ERR syntax error
DBSIZE x
-> -ERR wrong number of arguments for 'dbsize' command
RANDOMKEY x
-> -ERR wrong number of arguments for 'randomkey' command
KEYS
-> -ERR wrong number of arguments for 'keys' command
KEYS a b
-> -ERR wrong number of arguments for 'keys' command
LASTSAVE x
-> -ERR wrong number of arguments for 'lastsave' command
