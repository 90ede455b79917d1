# Words that a command does not take, as Redis says it. Each behind the same keys.

== sorted-sets
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
ZADD
-> -ERR wrong number of arguments for 'zadd' command
ZADD zset NX CH
-> -ERR syntax error
ZADD zset NX CH 1 m extra
-> -ERR syntax error
ZADD zset NX CH 1 m extra more
-> -ERR value is not a valid float
ZADD str NX CH 1 m
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZADD zset nosuch CH 1 m
-> -ERR value is not a valid float
ZADD zset NX nosuch 1 m
-> -ERR syntax error
ZADD zset NX CH abc m
-> -ERR value is not a valid float
ZADD zset NX CH "" m
-> -ERR value is not a valid float
ZINCRBY
-> -ERR wrong number of arguments for 'zincrby' command
ZINCRBY zset 0 a extra
-> -ERR wrong number of arguments for 'zincrby' command
ZINCRBY str 0 a
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZINCRBY zset abc a
-> -ERR value is not a valid float
ZINCRBY zset "" a
-> -ERR value is not a valid float
ZREM
-> -ERR wrong number of arguments for 'zrem' command
ZREM str nosuch
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREMRANGEBYSCORE
-> -ERR wrong number of arguments for 'zremrangebyscore' command
ZREMRANGEBYSCORE zset 5 6 extra
-> -ERR wrong number of arguments for 'zremrangebyscore' command
ZREMRANGEBYSCORE str 5 6
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREMRANGEBYSCORE zset abc 6
-> -ERR min or max is not a float
ZREMRANGEBYRANK
-> -ERR wrong number of arguments for 'zremrangebyrank' command
ZREMRANGEBYRANK zset 5 6 extra
-> -ERR wrong number of arguments for 'zremrangebyrank' command
ZREMRANGEBYRANK str 5 6
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREMRANGEBYRANK zset abc 6
-> -ERR value is not an integer or out of range
ZREMRANGEBYRANK zset "" 6
-> -ERR value is not an integer or out of range
ZREMRANGEBYRANK zset 5 ""
-> -ERR value is not an integer or out of range
ZREMRANGEBYLEX
-> -ERR wrong number of arguments for 'zremrangebylex' command
ZREMRANGEBYLEX zset '[x' '[y' extra
-> -ERR wrong number of arguments for 'zremrangebylex' command
ZREMRANGEBYLEX str '[x' '[y'
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZPOPMIN
-> -ERR wrong number of arguments for 'zpopmin' command
ZPOPMIN zset 0 extra
-> -ERR syntax error
ZPOPMIN str 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZPOPMIN zset abc
-> -ERR value is out of range, must be positive
ZPOPMIN zset ""
-> -ERR value is out of range, must be positive
ZPOPMAX
-> -ERR wrong number of arguments for 'zpopmax' command
ZPOPMAX zset 0 extra
-> -ERR syntax error
ZPOPMAX str 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZPOPMAX zset abc
-> -ERR value is out of range, must be positive
ZPOPMAX zset ""
-> -ERR value is out of range, must be positive
ZMPOP
-> -ERR wrong number of arguments for 'zmpop' command
ZMPOP 1 zset MIN COUNT
-> -ERR syntax error
ZMPOP 1 zset MIN COUNT 1 extra
-> -ERR syntax error
ZMPOP abc zset MIN COUNT 1
-> -ERR numkeys should be greater than 0
ZMPOP "" zset MIN COUNT 1
-> -ERR numkeys should be greater than 0
ZMPOP 1 str MIN COUNT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZMPOP 1 zset nosuch COUNT 1
-> -ERR syntax error
ZMPOP 1 zset MIN COUNT abc
-> -ERR count should be greater than 0
ZMPOP 1 zset MIN COUNT ""
-> -ERR count should be greater than 0
BZPOPMIN
-> -ERR wrong number of arguments for 'bzpopmin' command
BZPOPMIN zset 1 extra
-> -ERR timeout is not a float or out of range
BZPOPMIN str 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BZPOPMIN zset abc
-> -ERR timeout is not a float or out of range
BZPOPMIN zset -1
-> -ERR timeout is negative
BZPOPMIN zset ""
-> -ERR timeout is not a float or out of range
BZPOPMAX
-> -ERR wrong number of arguments for 'bzpopmax' command
BZPOPMAX zset 1 extra
-> -ERR timeout is not a float or out of range
BZPOPMAX str 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BZPOPMAX zset abc
-> -ERR timeout is not a float or out of range
BZPOPMAX zset -1
-> -ERR timeout is negative
BZPOPMAX zset ""
-> -ERR timeout is not a float or out of range
BZMPOP
-> -ERR wrong number of arguments for 'bzmpop' command
BZMPOP 1 1 zset MIN COUNT
-> -ERR syntax error
BZMPOP 1 1 zset MIN COUNT 1 extra
-> -ERR syntax error
BZMPOP abc 1 zset MIN COUNT 1
-> -ERR timeout is not a float or out of range
BZMPOP -1 1 zset MIN COUNT 1
-> -ERR timeout is negative
BZMPOP "" 1 zset MIN COUNT 1
-> -ERR timeout is not a float or out of range
BZMPOP 1 abc zset MIN COUNT 1
-> -ERR numkeys should be greater than 0
BZMPOP 1 "" zset MIN COUNT 1
-> -ERR numkeys should be greater than 0
BZMPOP 1 1 str MIN COUNT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BZMPOP 1 1 zset nosuch COUNT 1
-> -ERR syntax error
BZMPOP 1 1 zset MIN COUNT abc
-> -ERR count should be greater than 0
BZMPOP 1 1 zset MIN COUNT ""
-> -ERR count should be greater than 0
ZSCORE
-> -ERR wrong number of arguments for 'zscore' command
ZSCORE zset a extra
-> -ERR wrong number of arguments for 'zscore' command
ZSCORE str a
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZMSCORE
-> -ERR wrong number of arguments for 'zmscore' command
ZMSCORE str a
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZCARD
-> -ERR wrong number of arguments for 'zcard' command
ZCARD zset extra
-> -ERR wrong number of arguments for 'zcard' command
ZCARD str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZCOUNT
-> -ERR wrong number of arguments for 'zcount' command
ZCOUNT zset 0 9 extra
-> -ERR wrong number of arguments for 'zcount' command
ZCOUNT str 0 9
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZCOUNT zset abc 9
-> -ERR min or max is not a float
ZLEXCOUNT
-> -ERR wrong number of arguments for 'zlexcount' command
ZLEXCOUNT zset '[a' '[b' extra
-> -ERR wrong number of arguments for 'zlexcount' command
ZLEXCOUNT str '[a' '[b'
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANK
-> -ERR wrong number of arguments for 'zrank' command
# 7.2 knows WITHSCORE there.
ZRANK zset a extra
-> -ERR wrong number of arguments for 'zrank' command
7.2 -> -ERR syntax error
ZRANK str a
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREVRANK
-> -ERR wrong number of arguments for 'zrevrank' command
# 7.2 knows WITHSCORE there.
ZREVRANK zset a extra
-> -ERR wrong number of arguments for 'zrevrank' command
7.2 -> -ERR syntax error
ZREVRANK str a
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGE
-> -ERR wrong number of arguments for 'zrange' command
ZRANGE zset 0 1 REV WITHSCORES extra
-> -ERR syntax error
ZRANGE str 0 1 REV WITHSCORES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGE zset abc 1 REV WITHSCORES
-> -ERR value is not an integer or out of range
ZRANGE zset "" 1 REV WITHSCORES
-> -ERR value is not an integer or out of range
ZRANGE zset 0 "" REV WITHSCORES
-> -ERR value is not an integer or out of range
ZRANGE zset 0 1 nosuch WITHSCORES
-> -ERR syntax error
ZRANGE
-> -ERR wrong number of arguments for 'zrange' command
ZRANGE zset 9 0 BYSCORE REV LIMIT
-> -ERR syntax error
ZRANGE zset 9 0 BYSCORE REV LIMIT 0 1 extra
-> -ERR syntax error
ZRANGE str 9 0 BYSCORE REV LIMIT 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGE zset abc 0 BYSCORE REV LIMIT 0 1
-> -ERR min or max is not a float
ZRANGE zset 9 0 nosuch REV LIMIT 0 1
-> -ERR syntax error
ZRANGE zset 9 0 BYSCORE REV LIMIT abc 1
-> -ERR value is not an integer or out of range
ZRANGE zset 9 0 BYSCORE REV LIMIT "" 1
-> -ERR value is not an integer or out of range
ZRANGE zset 9 0 BYSCORE REV LIMIT 0 ""
-> -ERR value is not an integer or out of range
ZRANGE
-> -ERR wrong number of arguments for 'zrange' command
ZRANGE zset '[a' '[b'
-> -ERR value is not an integer or out of range
ZRANGE zset '[a' '[b' BYLEX extra
-> -ERR syntax error
ZRANGE str '[a' '[b' BYLEX
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGE zset '[a' '[b' nosuch
-> -ERR syntax error
ZREVRANGE
-> -ERR wrong number of arguments for 'zrevrange' command
ZREVRANGE zset 0 1 WITHSCORES extra
-> -ERR syntax error
ZREVRANGE str 0 1 WITHSCORES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREVRANGE zset abc 1 WITHSCORES
-> -ERR value is not an integer or out of range
ZREVRANGE zset "" 1 WITHSCORES
-> -ERR value is not an integer or out of range
ZREVRANGE zset 0 "" WITHSCORES
-> -ERR value is not an integer or out of range
ZREVRANGE zset 0 1 nosuch
-> -ERR syntax error
ZRANGEBYSCORE
-> -ERR wrong number of arguments for 'zrangebyscore' command
ZRANGEBYSCORE zset 0 9 WITHSCORES LIMIT
-> -ERR syntax error
ZRANGEBYSCORE zset 0 9 WITHSCORES LIMIT 0 1 extra
-> -ERR syntax error
ZRANGEBYSCORE str 0 9 WITHSCORES LIMIT 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGEBYSCORE zset abc 9 WITHSCORES LIMIT 0 1
-> -ERR min or max is not a float
ZRANGEBYSCORE zset 0 9 nosuch LIMIT 0 1
-> -ERR syntax error
ZRANGEBYSCORE zset 0 9 WITHSCORES LIMIT abc 1
-> -ERR value is not an integer or out of range
ZRANGEBYSCORE zset 0 9 WITHSCORES LIMIT "" 1
-> -ERR value is not an integer or out of range
ZRANGEBYSCORE zset 0 9 WITHSCORES LIMIT 0 ""
-> -ERR value is not an integer or out of range
ZREVRANGEBYSCORE
-> -ERR wrong number of arguments for 'zrevrangebyscore' command
ZREVRANGEBYSCORE zset 9 0 LIMIT
-> -ERR syntax error
ZREVRANGEBYSCORE zset 9 0 LIMIT 0 1 extra
-> -ERR syntax error
ZREVRANGEBYSCORE str 9 0 LIMIT 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREVRANGEBYSCORE zset abc 0 LIMIT 0 1
-> -ERR min or max is not a float
ZREVRANGEBYSCORE zset 9 0 nosuch 0 1
-> -ERR syntax error
ZREVRANGEBYSCORE zset 9 0 LIMIT abc 1
-> -ERR value is not an integer or out of range
ZREVRANGEBYSCORE zset 9 0 LIMIT "" 1
-> -ERR value is not an integer or out of range
ZREVRANGEBYSCORE zset 9 0 LIMIT 0 ""
-> -ERR value is not an integer or out of range
ZRANGEBYLEX
-> -ERR wrong number of arguments for 'zrangebylex' command
ZRANGEBYLEX zset '[a' '[b' LIMIT
-> -ERR syntax error
ZRANGEBYLEX zset '[a' '[b' LIMIT 0 1 extra
-> -ERR syntax error
ZRANGEBYLEX str '[a' '[b' LIMIT 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGEBYLEX zset '[a' '[b' nosuch 0 1
-> -ERR syntax error
ZRANGEBYLEX zset '[a' '[b' LIMIT abc 1
-> -ERR value is not an integer or out of range
ZRANGEBYLEX zset '[a' '[b' LIMIT "" 1
-> -ERR value is not an integer or out of range
ZRANGEBYLEX zset '[a' '[b' LIMIT 0 ""
-> -ERR value is not an integer or out of range
ZREVRANGEBYLEX
-> -ERR wrong number of arguments for 'zrevrangebylex' command
ZREVRANGEBYLEX zset '[b' '[a' LIMIT
-> -ERR syntax error
ZREVRANGEBYLEX zset '[b' '[a' LIMIT 0 1 extra
-> -ERR syntax error
ZREVRANGEBYLEX str '[b' '[a' LIMIT 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZREVRANGEBYLEX zset '[b' '[a' nosuch 0 1
-> -ERR syntax error
ZREVRANGEBYLEX zset '[b' '[a' LIMIT abc 1
-> -ERR value is not an integer or out of range
ZREVRANGEBYLEX zset '[b' '[a' LIMIT "" 1
-> -ERR value is not an integer or out of range
ZREVRANGEBYLEX zset '[b' '[a' LIMIT 0 ""
-> -ERR value is not an integer or out of range
ZRANGESTORE
-> -ERR wrong number of arguments for 'zrangestore' command
ZRANGESTORE k2 zset 0 1 REV extra
-> -ERR syntax error
ZRANGESTORE k2 str 0 1 REV
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANGESTORE k2 zset abc 1 REV
-> -ERR value is not an integer or out of range
ZRANGESTORE k2 zset "" 1 REV
-> -ERR value is not an integer or out of range
ZRANGESTORE k2 zset 0 "" REV
-> -ERR value is not an integer or out of range
ZRANGESTORE k2 zset 0 1 nosuch
-> -ERR syntax error
ZSCAN
-> -ERR wrong number of arguments for 'zscan' command
ZSCAN zset 0 MATCH
-> -ERR syntax error
ZSCAN zset 0 MATCH nosuch COUNT
-> -ERR syntax error
ZSCAN zset 0 MATCH nosuch COUNT 10 extra
-> -ERR syntax error
ZSCAN str 0 MATCH nosuch COUNT 10
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZSCAN zset abc MATCH nosuch COUNT 10
-> -ERR invalid cursor
ZSCAN zset 0 nosuch nosuch COUNT 10
-> -ERR syntax error
ZSCAN zset 0 MATCH nosuch COUNT abc
-> -ERR value is not an integer or out of range
ZSCAN zset 0 MATCH nosuch COUNT ""
-> -ERR value is not an integer or out of range
ZRANDMEMBER
-> -ERR wrong number of arguments for 'zrandmember' command
ZRANDMEMBER zset 0 WITHSCORES extra
-> -ERR syntax error
ZRANDMEMBER str 0 WITHSCORES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZRANDMEMBER zset abc WITHSCORES
-> -ERR value is not an integer or out of range
ZRANDMEMBER zset "" WITHSCORES
-> -ERR value is not an integer or out of range
ZRANDMEMBER zset 0 nosuch
-> -ERR syntax error
ZUNION
-> -ERR wrong number of arguments for 'zunion' command
ZUNION 1 zset WEIGHTS
-> -ERR syntax error
ZUNION 1 zset WEIGHTS 1 AGGREGATE SUM WITHSCORES extra
-> -ERR syntax error
ZUNION abc zset WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -ERR value is not an integer or out of range
ZUNION -1 zset WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -ERR at least 1 input key is needed for 'zunion' command
ZUNION "" zset WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -ERR value is not an integer or out of range
ZUNION 1 str WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZUNION 1 zset nosuch 1 AGGREGATE SUM WITHSCORES
-> -ERR syntax error
ZUNION 1 zset WEIGHTS abc AGGREGATE SUM WITHSCORES
-> -ERR weight value is not a float
ZUNION 1 zset WEIGHTS "" AGGREGATE SUM WITHSCORES
-> -ERR weight value is not a float
ZINTER
-> -ERR wrong number of arguments for 'zinter' command
ZINTER 1 zset WEIGHTS
-> -ERR syntax error
ZINTER 1 zset WEIGHTS 1 AGGREGATE SUM WITHSCORES extra
-> -ERR syntax error
ZINTER abc zset WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -ERR value is not an integer or out of range
ZINTER -1 zset WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -ERR at least 1 input key is needed for 'zinter' command
ZINTER "" zset WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -ERR value is not an integer or out of range
ZINTER 1 str WEIGHTS 1 AGGREGATE SUM WITHSCORES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZINTER 1 zset nosuch 1 AGGREGATE SUM WITHSCORES
-> -ERR syntax error
ZINTER 1 zset WEIGHTS abc AGGREGATE SUM WITHSCORES
-> -ERR weight value is not a float
ZINTER 1 zset WEIGHTS "" AGGREGATE SUM WITHSCORES
-> -ERR weight value is not a float
ZDIFF
-> -ERR wrong number of arguments for 'zdiff' command
ZDIFF 1 zset WITHSCORES extra
-> -ERR syntax error
ZDIFF abc zset WITHSCORES
-> -ERR value is not an integer or out of range
ZDIFF -1 zset WITHSCORES
-> -ERR at least 1 input key is needed for 'zdiff' command
ZDIFF "" zset WITHSCORES
-> -ERR value is not an integer or out of range
ZDIFF 1 str WITHSCORES
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZDIFF 1 zset nosuch
-> -ERR syntax error
ZINTERCARD
-> -ERR wrong number of arguments for 'zintercard' command
ZINTERCARD 1 zset LIMIT
-> -ERR syntax error
ZINTERCARD 1 zset LIMIT 1 extra
-> -ERR syntax error
ZINTERCARD abc zset LIMIT 1
-> -ERR value is not an integer or out of range
ZINTERCARD -1 zset LIMIT 1
-> -ERR at least 1 input key is needed for 'zintercard' command
ZINTERCARD "" zset LIMIT 1
-> -ERR value is not an integer or out of range
ZINTERCARD 1 str LIMIT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZINTERCARD 1 zset nosuch 1
-> -ERR syntax error
ZINTERCARD 1 zset LIMIT abc
-> -ERR LIMIT can't be negative
ZINTERCARD 1 zset LIMIT ""
-> -ERR LIMIT can't be negative
ZUNIONSTORE
-> -ERR wrong number of arguments for 'zunionstore' command
ZUNIONSTORE k2 1 zset WEIGHTS
-> -ERR syntax error
ZUNIONSTORE k2 1 zset WEIGHTS 1 AGGREGATE SUM extra
-> -ERR syntax error
ZUNIONSTORE k2 abc zset WEIGHTS 1 AGGREGATE SUM
-> -ERR value is not an integer or out of range
ZUNIONSTORE k2 -1 zset WEIGHTS 1 AGGREGATE SUM
-> -ERR at least 1 input key is needed for 'zunionstore' command
ZUNIONSTORE k2 "" zset WEIGHTS 1 AGGREGATE SUM
-> -ERR value is not an integer or out of range
ZUNIONSTORE k2 1 str WEIGHTS 1 AGGREGATE SUM
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZUNIONSTORE k2 1 zset nosuch 1 AGGREGATE SUM
-> -ERR syntax error
ZUNIONSTORE k2 1 zset WEIGHTS abc AGGREGATE SUM
-> -ERR weight value is not a float
ZUNIONSTORE k2 1 zset WEIGHTS "" AGGREGATE SUM
-> -ERR weight value is not a float
ZINTERSTORE
-> -ERR wrong number of arguments for 'zinterstore' command
ZINTERSTORE k2 1 zset extra
-> -ERR syntax error
ZINTERSTORE k2 abc zset
-> -ERR value is not an integer or out of range
ZINTERSTORE k2 -1 zset
-> -ERR at least 1 input key is needed for 'zinterstore' command
ZINTERSTORE k2 "" zset
-> -ERR value is not an integer or out of range
ZINTERSTORE k2 1 str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZDIFFSTORE
-> -ERR wrong number of arguments for 'zdiffstore' command
ZDIFFSTORE k2 1 zset extra
-> -ERR syntax error
ZDIFFSTORE k2 abc zset
-> -ERR value is not an integer or out of range
ZDIFFSTORE k2 -1 zset
-> -ERR at least 1 input key is needed for 'zdiffstore' command
ZDIFFSTORE k2 "" zset
-> -ERR value is not an integer or out of range
ZDIFFSTORE k2 1 str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
DBSIZE
-> :6
