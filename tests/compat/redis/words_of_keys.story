# Words that a command does not take, as Redis says it. Each behind the same keys.

== keys
SET str s
-> +OK
SET num 5
-> +OK
RPUSH list a b
-> :2
SADD set a
-> :1
ZADD zset 1 a 2 b
-> :2
HSET hash f v n 5
-> :2
DEL
-> -ERR wrong number of arguments for 'del' command
UNLINK
-> -ERR wrong number of arguments for 'unlink' command
EXISTS
-> -ERR wrong number of arguments for 'exists' command
TOUCH
-> -ERR wrong number of arguments for 'touch' command
TYPE
-> -ERR wrong number of arguments for 'type' command
TYPE str extra
-> -ERR wrong number of arguments for 'type' command
EXPIRE
-> -ERR wrong number of arguments for 'expire' command
EXPIRE str 100 NX extra
-> -ERR Unsupported option extra
EXPIRE str abc NX
-> -ERR value is not an integer or out of range
EXPIRE str "" NX
-> -ERR value is not an integer or out of range
EXPIRE str 100 nosuch
-> -ERR Unsupported option nosuch
PEXPIRE
-> -ERR wrong number of arguments for 'pexpire' command
PEXPIRE str 100000 extra
-> -ERR Unsupported option extra
PEXPIRE str abc
-> -ERR value is not an integer or out of range
PEXPIRE str ""
-> -ERR value is not an integer or out of range
EXPIREAT
-> -ERR wrong number of arguments for 'expireat' command
EXPIREAT str 99999999999 extra
-> -ERR Unsupported option extra
EXPIREAT str abc
-> -ERR value is not an integer or out of range
EXPIREAT str ""
-> -ERR value is not an integer or out of range
PEXPIREAT
-> -ERR wrong number of arguments for 'pexpireat' command
PEXPIREAT str 99999999999000 extra
-> -ERR Unsupported option extra
PEXPIREAT str abc
-> -ERR value is not an integer or out of range
PEXPIREAT str ""
-> -ERR value is not an integer or out of range
PERSIST
-> -ERR wrong number of arguments for 'persist' command
PERSIST str extra
-> -ERR wrong number of arguments for 'persist' command
TTL
-> -ERR wrong number of arguments for 'ttl' command
TTL str extra
-> -ERR wrong number of arguments for 'ttl' command
PTTL
-> -ERR wrong number of arguments for 'pttl' command
PTTL str extra
-> -ERR wrong number of arguments for 'pttl' command
EXPIRETIME
-> -ERR wrong number of arguments for 'expiretime' command
EXPIRETIME str extra
-> -ERR wrong number of arguments for 'expiretime' command
PEXPIRETIME
-> -ERR wrong number of arguments for 'pexpiretime' command
PEXPIRETIME str extra
-> -ERR wrong number of arguments for 'pexpiretime' command
RENAME
-> -ERR wrong number of arguments for 'rename' command
RENAME str k2 extra
-> -ERR wrong number of arguments for 'rename' command
RENAMENX
-> -ERR wrong number of arguments for 'renamenx' command
RENAMENX str k2 extra
-> -ERR wrong number of arguments for 'renamenx' command
COPY
-> -ERR wrong number of arguments for 'copy' command
COPY str k2 REPLACE extra
-> -ERR syntax error
COPY str k2 nosuch
-> -ERR syntax error
OBJECT
-> -ERR wrong number of arguments for 'object' command
OBJECT ENCODING
-> -ERR wrong number of arguments for 'object|encoding' command
OBJECT ENCODING str extra
-> -ERR wrong number of arguments for 'object|encoding' command
OBJECT nosuch str
-> -ERR unknown subcommand 'nosuch'. Try OBJECT HELP.
MEMORY
-> -ERR wrong number of arguments for 'memory' command
MEMORY USAGE
-> -ERR wrong number of arguments for 'memory|usage' command
MEMORY USAGE str SAMPLES
-> -ERR syntax error
MEMORY USAGE str SAMPLES 1 extra
-> -ERR syntax error
MEMORY nosuch str SAMPLES 1
-> -ERR unknown subcommand 'nosuch'. Try MEMORY HELP.
MEMORY USAGE str nosuch 1
-> -ERR syntax error
MEMORY USAGE str SAMPLES abc
-> -ERR value is not an integer or out of range
MEMORY USAGE str SAMPLES ""
-> -ERR value is not an integer or out of range
KEYS
-> -ERR wrong number of arguments for 'keys' command
KEYS pattern extra
-> -ERR wrong number of arguments for 'keys' command
RANDOMKEY extra
-> -ERR wrong number of arguments for 'randomkey' command
SCAN
-> -ERR wrong number of arguments for 'scan' command
SCAN 0 MATCH
-> -ERR syntax error
SCAN 0 MATCH x COUNT 10 TYPE y extra
-> -ERR syntax error
SCAN abc MATCH x COUNT 10 TYPE y
-> -ERR invalid cursor
SCAN 0 nosuch x COUNT 10 TYPE y
-> -ERR syntax error
SCAN 0 MATCH x COUNT abc TYPE y
-> -ERR value is not an integer or out of range
SCAN 0 MATCH x COUNT "" TYPE y
-> -ERR value is not an integer or out of range
DBSIZE extra
-> -ERR wrong number of arguments for 'dbsize' command
FLUSHALL ASYNC extra
-> -ERR syntax error
FLUSHALL nosuch
-> -ERR syntax error
FLUSHDB SYNC extra
-> -ERR syntax error
FLUSHDB nosuch
-> -ERR syntax error
DBSIZE
-> :6
