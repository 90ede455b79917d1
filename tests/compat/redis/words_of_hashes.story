# Words that a command does not take, as Redis says it. Each behind the same keys.

== hashes
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
HSET
-> -ERR wrong number of arguments for 'hset' command
HSET hash f v extra
-> -ERR wrong number of arguments for 'hset' command
HSET str f v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HMSET
-> -ERR wrong number of arguments for 'hmset' command
HMSET hash f v extra
-> -ERR wrong number of arguments for 'hmset' command
HMSET str f v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HSETNX
-> -ERR wrong number of arguments for 'hsetnx' command
HSETNX hash f v extra
-> -ERR wrong number of arguments for 'hsetnx' command
HSETNX str f v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HGET
-> -ERR wrong number of arguments for 'hget' command
HGET hash f extra
-> -ERR wrong number of arguments for 'hget' command
HGET str f
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HMGET
-> -ERR wrong number of arguments for 'hmget' command
HMGET str f
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HGETALL
-> -ERR wrong number of arguments for 'hgetall' command
HGETALL hash extra
-> -ERR wrong number of arguments for 'hgetall' command
HGETALL str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HDEL
-> -ERR wrong number of arguments for 'hdel' command
HDEL str nosuch
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HEXISTS
-> -ERR wrong number of arguments for 'hexists' command
HEXISTS hash f extra
-> -ERR wrong number of arguments for 'hexists' command
HEXISTS str f
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HLEN
-> -ERR wrong number of arguments for 'hlen' command
HLEN hash extra
-> -ERR wrong number of arguments for 'hlen' command
HLEN str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HSTRLEN
-> -ERR wrong number of arguments for 'hstrlen' command
HSTRLEN hash f extra
-> -ERR wrong number of arguments for 'hstrlen' command
HSTRLEN str f
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HINCRBY
-> -ERR wrong number of arguments for 'hincrby' command
HINCRBY hash n 0 extra
-> -ERR wrong number of arguments for 'hincrby' command
HINCRBY str n 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HINCRBY hash n abc
-> -ERR value is not an integer or out of range
HINCRBY hash n ""
-> -ERR value is not an integer or out of range
HINCRBYFLOAT
-> -ERR wrong number of arguments for 'hincrbyfloat' command
HINCRBYFLOAT hash n 0 extra
-> -ERR wrong number of arguments for 'hincrbyfloat' command
HINCRBYFLOAT str n 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HINCRBYFLOAT hash n abc
-> -ERR value is not a valid float
HINCRBYFLOAT hash n ""
-> -ERR value is not a valid float
HKEYS
-> -ERR wrong number of arguments for 'hkeys' command
HKEYS hash extra
-> -ERR wrong number of arguments for 'hkeys' command
HKEYS str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HVALS
-> -ERR wrong number of arguments for 'hvals' command
HVALS hash extra
-> -ERR wrong number of arguments for 'hvals' command
HVALS str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HSCAN
-> -ERR wrong number of arguments for 'hscan' command
HSCAN hash 0 MATCH
-> -ERR syntax error
HSCAN hash 0 MATCH nosuch COUNT
-> -ERR syntax error
HSCAN hash 0 MATCH nosuch COUNT 10 extra
-> -ERR syntax error
HSCAN str 0 MATCH nosuch COUNT 10
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HSCAN hash abc MATCH nosuch COUNT 10
-> -ERR invalid cursor
HSCAN hash 0 nosuch nosuch COUNT 10
-> -ERR syntax error
HSCAN hash 0 MATCH nosuch COUNT abc
-> -ERR value is not an integer or out of range
HSCAN hash 0 MATCH nosuch COUNT ""
-> -ERR value is not an integer or out of range
HRANDFIELD
-> -ERR wrong number of arguments for 'hrandfield' command
HRANDFIELD hash 0 WITHVALUES extra
-> -ERR syntax error
HRANDFIELD str 0 WITHVALUES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HRANDFIELD hash abc WITHVALUES
-> -ERR value is not an integer or out of range
HRANDFIELD hash "" WITHVALUES
-> -ERR value is not an integer or out of range
HRANDFIELD hash 0 nosuch
-> -ERR syntax error
DBSIZE
-> :6
