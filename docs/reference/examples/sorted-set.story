# Sorted-set commands.

== BZMPOP
# array: the key, and the members with their scores
# nil: the time was over
ZADD jobs 1 clean 2 cook
-> :2
BZMPOP 5 2 urgent jobs MIN COUNT 2
-> *2 $"jobs" *2 *2 $"clean" $"1" *2 $"cook" $"2"
BZMPOP 0.01 1 urgent MIN
-> *-1

== BZMPOP fails
# The number of keys is not a positive integer.
BZMPOP 5 0 jobs MIN
-> -ERR numkeys should be greater than 0
# The time-out is negative.
BZMPOP -1 1 jobs MIN
-> -ERR timeout is negative

== BZPOPMAX
# array: the key, the member and its score
# nil: the time was over
ZADD jobs 1 clean 2 cook
-> :2
BZPOPMAX urgent jobs 5
-> *3 $"jobs" $"cook" $"2"
BZPOPMAX urgent 0.01
-> *-1

== BZPOPMAX fails
# The time-out is negative.
BZPOPMAX jobs -1
-> -ERR timeout is negative

== BZPOPMIN
# array: the key, the member and its score
# nil: the time was over
ann: BZPOPMIN jobs 0
-> ...
ben: ZADD jobs 1 clean
-> :1
ann <- *3 $"jobs" $"clean" $"1"

== BZPOPMIN fails
# The time-out is negative.
BZPOPMIN jobs -1
-> -ERR timeout is negative

== ZADD
# integer: how many members are new; with CH also those whose score changed
# double: the new score, with INCR
# nil: a condition did not hold, with INCR
ZADD game 10 ann 20 ben
-> :2
ZADD game GT CH 15 ann 5 ben
-> :1
ZADD game INCR 2.5 ben
-> $"22.5"
ZADD game NX INCR 1 ben
-> $-1

== ZADD fails
# The score is not a number.
ZADD game high ann
-> -ERR value is not a valid float
# NX and XX exclude each other.
ZADD game NX XX 1 ann
-> -ERR XX and NX options at the same time are not compatible
# GT, LT and NX exclude each other.
ZADD game GT NX 1 ann
-> -ERR GT, LT, and/or NX options at the same time are not compatible
# INCR takes one member.
ZADD game INCR 1 ann 2 ben
-> -ERR INCR option supports a single increment-element pair

== ZCARD
# integer: how many members; 0 for an absent key
ZADD game 10 ann 20 ben
-> :2
ZCARD game
-> :2

== ZCOUNT
# integer: how many members
ZADD game 10 ann 20 ben 30 cid
-> :3
ZCOUNT game 10 20
-> :2
ZCOUNT game (10 +inf
-> :2

== ZCOUNT fails
# A bound is not a number, or `(` and a number.
ZCOUNT game low high
-> -ERR min or max is not a float

== ZDIFF
# array: the members, with WITHSCORES with their scores
ZADD all 1 a 2 b 3 c
-> :3
ZADD used 9 b
-> :1
ZDIFF 2 all used WITHSCORES
-> *4 $"a" $"1" $"c" $"3"

== ZDIFF fails
# The number of keys is not a positive integer.
ZDIFF 0 all
-> -ERR at least 1 input key is needed for 'zdiff' command
# The number of keys is larger than that of the arguments.
ZDIFF 2 all
-> -ERR syntax error

== ZDIFFSTORE
# integer: how many members were stored
ZADD all 1 a 2 b 3 c
-> :3
ZADD used 9 b
-> :1
ZDIFFSTORE free 2 all used
-> :2
ZRANGE free 0 -1
-> *2 $"a" $"c"

== ZDIFFSTORE fails
# The number of keys is not a positive integer.
ZDIFFSTORE free 0 all
-> -ERR at least 1 input key is needed for 'zdiffstore' command

== ZINCRBY
# double: the new score
ZADD game 10 ann
-> :1
ZINCRBY game 2.5 ann
-> $"12.5"
ZINCRBY game 1 ben
-> $"1"

== ZINCRBY fails
# The increment is not a number.
ZINCRBY game much ann
-> -ERR value is not a valid float
ZADD game inf ann
-> :1
# The score would not be a number.
ZINCRBY game -inf ann
-> -ERR resulting score is not a number (NaN)

== ZINTER
# array: the members, with WITHSCORES with their scores
ZADD math 1 ann 2 ben
-> :2
ZADD art 3 ben 4 cid
-> :2
ZINTER 2 math art WITHSCORES
-> *2 $"ben" $"5"
ZINTER 2 math art WEIGHTS 2 1 AGGREGATE MAX WITHSCORES
-> *2 $"ben" $"4"

== ZINTER fails
# The number of keys is not a positive integer.
ZINTER 0 math
-> -ERR at least 1 input key is needed for 'zinter' command
# A weight is not a number.
ZINTER 1 math WEIGHTS heavy
-> -ERR weight value is not a float

== ZINTERCARD
# integer: how many members, at most the limit
ZADD math 1 ann 2 ben
-> :2
ZADD art 3 ben 4 cid
-> :2
ZINTERCARD 2 math art
-> :1

== ZINTERCARD fails
# The number of keys is not a positive integer.
ZINTERCARD 0 math
-> -ERR at least 1 input key is needed for 'zintercard' command
# The limit is negative.
ZINTERCARD 1 math LIMIT -1
-> -ERR LIMIT can't be negative

== ZINTERSTORE
# integer: how many members were stored
ZADD math 1 ann 2 ben
-> :2
ZADD art 3 ben 4 cid
-> :2
ZINTERSTORE both 2 math art
-> :1
ZRANGE both 0 -1 WITHSCORES
-> *2 $"ben" $"5"

== ZINTERSTORE fails
# The number of keys is not a positive integer.
ZINTERSTORE both 0 math
-> -ERR at least 1 input key is needed for 'zinterstore' command
# A weight is not a number.
ZINTERSTORE both 1 math WEIGHTS heavy
-> -ERR weight value is not a float

== ZLEXCOUNT
# integer: how many members
ZADD names 0 ann 0 ben 0 cid
-> :3
ZLEXCOUNT names [ann (cid
-> :2
ZLEXCOUNT names - +
-> :3

== ZLEXCOUNT fails
# A bound is `-`, `+`, or begins with `[` or `(`.
ZLEXCOUNT names ann ben
-> -ERR min or max not valid string range item

== ZMPOP
# array: the key, and the members with their scores
# nil: all sorted sets are empty
ZADD jobs 1 clean 2 cook
-> :2
ZMPOP 2 urgent jobs MAX
-> *2 $"jobs" *1 *2 $"cook" $"2"
ZMPOP 1 urgent MAX
-> *-1

== ZMPOP fails
# The number of keys is not a positive integer.
ZMPOP 0 jobs MAX
-> -ERR numkeys should be greater than 0
# COUNT is not positive.
ZMPOP 1 jobs MAX COUNT 0
-> -ERR count should be greater than 0

== ZMSCORE
# array: the score of each member; nil where there is none
ZADD game 10 ann 20 ben
-> :2
ZMSCORE game ann zoe
-> *2 $"10" $-1

== ZPOPMAX
# array: the members with their scores; empty for an absent key
ZADD game 10 ann 20 ben 30 cid
-> :3
ZPOPMAX game
-> *2 $"cid" $"30"
ZPOPMAX game 2
-> *4 $"ben" $"20" $"ann" $"10"

== ZPOPMAX fails
# The number is negative or not an integer.
ZPOPMAX game -1
-> -ERR value is out of range, must be positive

== ZPOPMIN
# array: the members with their scores; empty for an absent key
ZADD game 10 ann 20 ben 30 cid
-> :3
ZPOPMIN game
-> *2 $"ann" $"10"
ZPOPMIN game 2
-> *4 $"ben" $"20" $"cid" $"30"

== ZPOPMIN fails
# The number is negative or not an integer.
ZPOPMIN game -1
-> -ERR value is out of range, must be positive

== ZRANDMEMBER
# string: a member, without a number
# array: with a number: different members, or with a negative one as many as it says, which may repeat; with WITHSCORES each with its score
# nil: the key does not exist, without a number
ZADD game 10 ann
-> :1
ZRANDMEMBER game
-> $"ann"
ZRANDMEMBER game 5 WITHSCORES
-> *2 $"ann" $"10"

== ZRANDMEMBER fails
# The number is not an integer.
ZRANDMEMBER game some
-> -ERR value is not an integer or out of range

== ZRANGE
# array: the members, with WITHSCORES with their scores
ZADD game 10 ann 20 ben 30 cid
-> :3
ZRANGE game 0 1
-> *2 $"ann" $"ben"
ZRANGE game 0 0 REV WITHSCORES
-> *2 $"cid" $"30"
ZRANGE game (10 +inf BYSCORE LIMIT 0 1
-> *1 $"ben"

== ZRANGE fails
# A rank is not an integer.
ZRANGE game 0 x
-> -ERR value is not an integer or out of range
# LIMIT needs BYSCORE or BYLEX.
ZRANGE game 0 1 LIMIT 0 1
-> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
# WITHSCORES is not for BYLEX.
ZRANGE game - + BYLEX WITHSCORES
-> -ERR syntax error, WITHSCORES not supported in combination with BYLEX
# A bound is not a number.
ZRANGE game low high BYSCORE
-> -ERR min or max is not a float

== ZRANGEBYLEX
# array: the members
ZADD names 0 ann 0 ben 0 cid
-> :3
ZRANGEBYLEX names [b +
-> *2 $"ben" $"cid"
ZRANGEBYLEX names - (cid LIMIT 0 1
-> *1 $"ann"

== ZRANGEBYLEX fails
# A bound is `-`, `+`, or begins with `[` or `(`.
ZRANGEBYLEX names ann ben
-> -ERR min or max not valid string range item

== ZRANGEBYSCORE
# array: the members, with WITHSCORES with their scores
ZADD game 10 ann 20 ben 30 cid
-> :3
ZRANGEBYSCORE game (10 30
-> *2 $"ben" $"cid"
ZRANGEBYSCORE game -inf +inf WITHSCORES LIMIT 0 1
-> *2 $"ann" $"10"

== ZRANGEBYSCORE fails
# A bound is not a number, or `(` and a number.
ZRANGEBYSCORE game low high
-> -ERR min or max is not a float

== ZRANGESTORE
# integer: how many members were stored
ZADD game 10 ann 20 ben 30 cid
-> :3
ZRANGESTORE best game 0 1 REV
-> :2
ZRANGE best 0 -1
-> *2 $"ben" $"cid"

== ZRANGESTORE fails
# LIMIT needs BYSCORE or BYLEX.
ZRANGESTORE best game 0 1 LIMIT 0 1
-> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX

== ZRANK
# integer: how many members have a lower score
# array: that and the score, with WITHSCORE
# nil: it is no member
ZADD game 10 ann 20 ben
-> :2
ZRANK game ben
-> :1
ZRANK game ben WITHSCORE
-> *2 :1 $"20"
ZRANK game zoe
-> $-1

== ZREM
# integer: how many of them were members
ZADD game 10 ann 20 ben
-> :2
ZREM game ann zoe
-> :1
ZRANGE game 0 -1
-> *1 $"ben"

== ZREMRANGEBYLEX
# integer: how many members were removed
ZADD names 0 ann 0 ben 0 cid
-> :3
ZREMRANGEBYLEX names - (cid
-> :2
ZRANGE names 0 -1
-> *1 $"cid"

== ZREMRANGEBYLEX fails
# A bound is `-`, `+`, or begins with `[` or `(`.
ZREMRANGEBYLEX names ann ben
-> -ERR min or max not valid string range item

== ZREMRANGEBYRANK
# integer: how many members were removed
ZADD game 10 ann 20 ben 30 cid
-> :3
ZREMRANGEBYRANK game 0 -2
-> :2
ZRANGE game 0 -1
-> *1 $"cid"

== ZREMRANGEBYRANK fails
# A rank is not an integer.
ZREMRANGEBYRANK game 0 last
-> -ERR value is not an integer or out of range

== ZREMRANGEBYSCORE
# integer: how many members were removed
ZADD game 10 ann 20 ben 30 cid
-> :3
ZREMRANGEBYSCORE game -inf (30
-> :2
ZRANGE game 0 -1
-> *1 $"cid"

== ZREMRANGEBYSCORE fails
# A bound is not a number, or `(` and a number.
ZREMRANGEBYSCORE game low high
-> -ERR min or max is not a float

== ZREVRANGE
# array: the members, with WITHSCORES with their scores
ZADD game 10 ann 20 ben 30 cid
-> :3
ZREVRANGE game 0 1 WITHSCORES
-> *4 $"cid" $"30" $"ben" $"20"

== ZREVRANGE fails
# A rank is not an integer.
ZREVRANGE game 0 last
-> -ERR value is not an integer or out of range

== ZREVRANGEBYLEX
# array: the members
ZADD names 0 ann 0 ben 0 cid
-> :3
ZREVRANGEBYLEX names + [b
-> *2 $"cid" $"ben"

== ZREVRANGEBYLEX fails
# A bound is `-`, `+`, or begins with `[` or `(`.
ZREVRANGEBYLEX names ann ben
-> -ERR min or max not valid string range item

== ZREVRANGEBYSCORE
# array: the members, with WITHSCORES with their scores
ZADD game 10 ann 20 ben 30 cid
-> :3
ZREVRANGEBYSCORE game +inf 20 WITHSCORES
-> *4 $"cid" $"30" $"ben" $"20"

== ZREVRANGEBYSCORE fails
# A bound is not a number, or `(` and a number.
ZREVRANGEBYSCORE game high low
-> -ERR min or max is not a float

== ZREVRANK
# integer: how many members have a higher score
# array: that and the score, with WITHSCORE
# nil: it is no member
ZADD game 10 ann 20 ben
-> :2
ZREVRANK game ann
-> :1
ZREVRANK game zoe
-> $-1

== ZSCAN
# array: the cursor for the next call, 0 at the end; and members with their scores
ZADD game 10 ann 20 ben
-> :2
ZSCAN game 0
-> *2 $"0" *4 $"ben" $"20" $"ann" $"10"
ZSCAN game 0 MATCH a*
-> *2 $"0" *2 $"ann" $"10"

== ZSCAN fails
# The cursor is not a number.
ZSCAN game x
-> -ERR invalid cursor
# COUNT is not positive.
ZSCAN game 0 COUNT 0
-> -ERR syntax error

== ZSCORE
# double: the score
# nil: it is no member
ZADD game 10.5 ann
-> :1
ZSCORE game ann
-> $"10.5"
ZSCORE game zoe
-> $-1

== ZSET.TAKE
# array: the members with their scores
# nil: the sorted set is empty
ZADD jobs 1 clean 2 cook 3 wash
-> :3
ZSET.TAKE jobs MIN
-> *2 $"clean" $"1"
ZSET.TAKE jobs MAX COUNT 5
-> *4 $"wash" $"3" $"cook" $"2"
ZSET.TAKE jobs MIN
-> $-1

== ZSET.TAKE fails
# Neither MIN nor MAX.
ZSET.TAKE jobs MIDDLE
-> -ERR syntax error
# COUNT is not positive.
ZSET.TAKE jobs MIN COUNT 0
-> -ERR count should be greater than 0

== ZUNION
# array: the members, with WITHSCORES with their scores
ZADD math 1 ann 2 ben
-> :2
ZADD art 3 ben 4 cid
-> :2
ZUNION 2 math art WITHSCORES
-> *6 $"ann" $"1" $"cid" $"4" $"ben" $"5"

== ZUNION fails
# The number of keys is not a positive integer.
ZUNION 0 math
-> -ERR at least 1 input key is needed for 'zunion' command
# A weight is not a number.
ZUNION 1 math WEIGHTS heavy
-> -ERR weight value is not a float

== ZUNIONSTORE
# integer: how many members were stored
ZADD math 1 ann 2 ben
-> :2
ZADD art 3 ben 4 cid
-> :2
ZUNIONSTORE all 2 math art
-> :3
ZRANGE all 0 -1 WITHSCORES
-> *6 $"ann" $"1" $"cid" $"4" $"ben" $"5"

== ZUNIONSTORE fails
# The number of keys is not a positive integer.
ZUNIONSTORE all 0 math
-> -ERR at least 1 input key is needed for 'zunionstore' command
# A weight is not a number.
ZUNIONSTORE all 1 math WEIGHTS heavy
-> -ERR weight value is not a float
