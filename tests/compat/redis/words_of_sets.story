# Words that a command does not take, as Redis says it. Each behind the same keys.

== sets
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
SADD
-> -ERR wrong number of arguments for 'sadd' command
SADD str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SREM
-> -ERR wrong number of arguments for 'srem' command
SREM str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SPOP
-> -ERR wrong number of arguments for 'spop' command
SPOP set 0 extra
-> -ERR syntax error
SPOP str 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SPOP set abc
-> -ERR value is out of range, must be positive
SPOP set ""
-> -ERR value is out of range, must be positive
SISMEMBER
-> -ERR wrong number of arguments for 'sismember' command
SISMEMBER set v extra
-> -ERR wrong number of arguments for 'sismember' command
SISMEMBER str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SMISMEMBER
-> -ERR wrong number of arguments for 'smismember' command
SMISMEMBER str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SCARD
-> -ERR wrong number of arguments for 'scard' command
SCARD set extra
-> -ERR wrong number of arguments for 'scard' command
SCARD str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SMEMBERS
-> -ERR wrong number of arguments for 'smembers' command
SMEMBERS set extra
-> -ERR wrong number of arguments for 'smembers' command
SMEMBERS str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SRANDMEMBER
-> -ERR wrong number of arguments for 'srandmember' command
SRANDMEMBER set 0 extra
-> -ERR syntax error
SRANDMEMBER str 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SRANDMEMBER set abc
-> -ERR value is not an integer or out of range
SRANDMEMBER set ""
-> -ERR value is not an integer or out of range
SSCAN
-> -ERR wrong number of arguments for 'sscan' command
SSCAN set 0 MATCH
-> -ERR syntax error
SSCAN set 0 MATCH nosuch COUNT
-> -ERR syntax error
SSCAN set 0 MATCH nosuch COUNT 10 extra
-> -ERR syntax error
SSCAN str 0 MATCH nosuch COUNT 10
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SSCAN set abc MATCH nosuch COUNT 10
-> -ERR invalid cursor
SSCAN set 0 nosuch nosuch COUNT 10
-> -ERR syntax error
SSCAN set 0 MATCH nosuch COUNT abc
-> -ERR value is not an integer or out of range
SSCAN set 0 MATCH nosuch COUNT ""
-> -ERR value is not an integer or out of range
SMOVE
-> -ERR wrong number of arguments for 'smove' command
SMOVE set set nosuch extra
-> -ERR wrong number of arguments for 'smove' command
SMOVE str set nosuch
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SINTER
-> -ERR wrong number of arguments for 'sinter' command
SINTER str set
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SUNION
-> -ERR wrong number of arguments for 'sunion' command
SUNION str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SDIFF
-> -ERR wrong number of arguments for 'sdiff' command
SDIFF str set
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SINTERCARD
-> -ERR wrong number of arguments for 'sintercard' command
SINTERCARD 1 set LIMIT
-> -ERR syntax error
SINTERCARD 1 set LIMIT 1 extra
-> -ERR syntax error
SINTERCARD abc set LIMIT 1
-> -ERR numkeys should be greater than 0
SINTERCARD "" set LIMIT 1
-> -ERR numkeys should be greater than 0
SINTERCARD 1 str LIMIT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SINTERCARD 1 set nosuch 1
-> -ERR syntax error
SINTERCARD 1 set LIMIT abc
-> -ERR LIMIT can't be negative
SINTERCARD 1 set LIMIT ""
-> -ERR LIMIT can't be negative
SINTERSTORE
-> -ERR wrong number of arguments for 'sinterstore' command
SINTERSTORE k2 str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SUNIONSTORE
-> -ERR wrong number of arguments for 'sunionstore' command
SUNIONSTORE k2 str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SDIFFSTORE
-> -ERR wrong number of arguments for 'sdiffstore' command
SDIFFSTORE k2 str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
DBSIZE
-> :6
