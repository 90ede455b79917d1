# Words that a command does not take, as Redis says it. Each behind the same keys.

== strings
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
GET
-> -ERR wrong number of arguments for 'get' command
GET str extra
-> -ERR wrong number of arguments for 'get' command
GET list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SET
-> -ERR wrong number of arguments for 'set' command
SET str v extra
-> -ERR syntax error
SETNX
-> -ERR wrong number of arguments for 'setnx' command
SETNX str v extra
-> -ERR wrong number of arguments for 'setnx' command
SETEX
-> -ERR wrong number of arguments for 'setex' command
SETEX str 10 v extra
-> -ERR wrong number of arguments for 'setex' command
SETEX str abc v
-> -ERR value is not an integer or out of range
SETEX str -1 v
-> -ERR invalid expire time in 'setex' command
SETEX str "" v
-> -ERR value is not an integer or out of range
PSETEX
-> -ERR wrong number of arguments for 'psetex' command
PSETEX str 10 v extra
-> -ERR wrong number of arguments for 'psetex' command
PSETEX str abc v
-> -ERR value is not an integer or out of range
PSETEX str -1 v
-> -ERR invalid expire time in 'psetex' command
PSETEX str "" v
-> -ERR value is not an integer or out of range
GETSET
-> -ERR wrong number of arguments for 'getset' command
GETSET str v extra
-> -ERR wrong number of arguments for 'getset' command
GETSET list v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
GETDEL
-> -ERR wrong number of arguments for 'getdel' command
GETDEL str extra
-> -ERR wrong number of arguments for 'getdel' command
GETDEL list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
GETEX
-> -ERR wrong number of arguments for 'getex' command
GETEX str EX
-> -ERR syntax error
GETEX str EX 10 extra
-> -ERR syntax error
GETEX list EX 10
-> -WRONGTYPE Operation against a key holding the wrong kind of value
GETEX str nosuch 10
-> -ERR syntax error
GETEX str EX abc
-> -ERR value is not an integer or out of range
GETEX str EX -1
-> -ERR invalid expire time in 'getex' command
GETEX str EX ""
-> -ERR value is not an integer or out of range
MGET
-> -ERR wrong number of arguments for 'mget' command
MSET
-> -ERR wrong number of arguments for 'mset' command
MSET str v k2 v extra
-> -ERR wrong number of arguments for 'mset' command
MSETNX
-> -ERR wrong number of arguments for 'msetnx' command
MSETNX str v k2 v extra
-> -ERR wrong number of arguments for 'msetnx' command
INCR
-> -ERR wrong number of arguments for 'incr' command
INCR num extra
-> -ERR wrong number of arguments for 'incr' command
INCR list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
DECR
-> -ERR wrong number of arguments for 'decr' command
DECR num extra
-> -ERR wrong number of arguments for 'decr' command
DECR list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
INCRBY
-> -ERR wrong number of arguments for 'incrby' command
INCRBY num 1 extra
-> -ERR wrong number of arguments for 'incrby' command
INCRBY list 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
INCRBY num abc
-> -ERR value is not an integer or out of range
INCRBY num ""
-> -ERR value is not an integer or out of range
DECRBY
-> -ERR wrong number of arguments for 'decrby' command
DECRBY num 1 extra
-> -ERR wrong number of arguments for 'decrby' command
DECRBY list 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
DECRBY num abc
-> -ERR value is not an integer or out of range
DECRBY num ""
-> -ERR value is not an integer or out of range
INCRBYFLOAT
-> -ERR wrong number of arguments for 'incrbyfloat' command
INCRBYFLOAT num 1 extra
-> -ERR wrong number of arguments for 'incrbyfloat' command
INCRBYFLOAT list 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
INCRBYFLOAT num abc
-> -ERR value is not a valid float
INCRBYFLOAT num ""
-> -ERR value is not a valid float
APPEND
-> -ERR wrong number of arguments for 'append' command
APPEND str v extra
-> -ERR wrong number of arguments for 'append' command
APPEND list v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
STRLEN
-> -ERR wrong number of arguments for 'strlen' command
STRLEN str extra
-> -ERR wrong number of arguments for 'strlen' command
STRLEN list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
GETRANGE
-> -ERR wrong number of arguments for 'getrange' command
GETRANGE str 0 1 extra
-> -ERR wrong number of arguments for 'getrange' command
GETRANGE list 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
GETRANGE str abc 1
-> -ERR value is not an integer or out of range
GETRANGE str "" 1
-> -ERR value is not an integer or out of range
GETRANGE str 0 ""
-> -ERR value is not an integer or out of range
SUBSTR
-> -ERR wrong number of arguments for 'substr' command
SUBSTR str 0 1 extra
-> -ERR wrong number of arguments for 'substr' command
SUBSTR list 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SUBSTR str abc 1
-> -ERR value is not an integer or out of range
SUBSTR str "" 1
-> -ERR value is not an integer or out of range
SUBSTR str 0 ""
-> -ERR value is not an integer or out of range
SETRANGE
-> -ERR wrong number of arguments for 'setrange' command
SETRANGE str 0 v extra
-> -ERR wrong number of arguments for 'setrange' command
SETRANGE list 0 v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SETRANGE str abc v
-> -ERR value is not an integer or out of range
SETRANGE str -1 v
-> -ERR offset is out of range
SETRANGE str "" v
-> -ERR value is not an integer or out of range
SETBIT
-> -ERR wrong number of arguments for 'setbit' command
SETBIT str 0 1 extra
-> -ERR wrong number of arguments for 'setbit' command
SETBIT list 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SETBIT str abc 1
-> -ERR bit offset is not an integer or out of range
SETBIT str "" 1
-> -ERR bit offset is not an integer or out of range
GETBIT
-> -ERR wrong number of arguments for 'getbit' command
GETBIT str 0 extra
-> -ERR wrong number of arguments for 'getbit' command
GETBIT list 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
GETBIT str abc
-> -ERR bit offset is not an integer or out of range
GETBIT str ""
-> -ERR bit offset is not an integer or out of range
BITCOUNT
-> -ERR wrong number of arguments for 'bitcount' command
BITCOUNT str 0
-> -ERR syntax error
BITCOUNT str 0 1 BYTE extra
-> -ERR syntax error
BITCOUNT list 0 1 BYTE
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BITCOUNT str abc 1 BYTE
-> -ERR value is not an integer or out of range
BITCOUNT str "" 1 BYTE
-> -ERR value is not an integer or out of range
BITCOUNT str 0 "" BYTE
-> -ERR value is not an integer or out of range
BITCOUNT str 0 1 nosuch
-> -ERR syntax error
DBSIZE
-> :6
