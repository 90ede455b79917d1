# Set commands.

== SADD
# integer: how many of the members are new
SADD tags red blue
-> :2
SADD tags blue green
-> :1
SMEMBERS tags
-> *3 $"red" $"blue" $"green"

== SCARD
# integer: how many members the set has; 0 for an absent key
SADD tags red blue
-> :2
SCARD tags
-> :2

== SDIFF
# set: the members
SADD all red blue green
-> :3
SADD used blue
-> :1
SDIFF all used
-> *2 $"red" $"green"

== SDIFFSTORE
# integer: how many members were stored
SADD all red blue green
-> :3
SADD used blue
-> :1
SDIFFSTORE free all used
-> :2
SMEMBERS free
-> *2 $"red" $"green"

== SINTER
# set: the members
SADD ann red blue
-> :2
SADD ben blue green
-> :2
SINTER ann ben
-> *1 $"blue"

== SINTERCARD
# integer: how many members, at most the limit
SADD ann red blue white
-> :3
SADD ben blue green white
-> :3
SINTERCARD 2 ann ben
-> :2
SINTERCARD 2 ann ben LIMIT 1
-> :1

== SINTERCARD fails
# The number of keys is not a positive integer.
SINTERCARD 0 ann
-> -ERR numkeys should be greater than 0
# The number of keys is larger than that of the arguments.
SINTERCARD 2 ann
-> -ERR syntax error
# The limit is negative.
SINTERCARD 1 ann LIMIT -1
-> -ERR LIMIT can't be negative

== SINTERSTORE
# integer: how many members were stored
SADD ann red blue
-> :2
SADD ben blue green
-> :2
SINTERSTORE both ann ben
-> :1
SMEMBERS both
-> *1 $"blue"

== SISMEMBER
# integer: 1 if it is a member, else 0
SADD tags red blue
-> :2
SISMEMBER tags red
-> :1
SISMEMBER tags white
-> :0

== SMEMBERS
# set: the members; empty for an absent key
SADD tags red blue
-> :2
SMEMBERS tags
-> *2 $"red" $"blue"

== SMISMEMBER
# array: for each 1 if it is a member, else 0
SADD tags red blue
-> :2
SMISMEMBER tags red white
-> *2 :1 :0

== SMOVE
# integer: 1 if it was moved; 0 if it was no member of the source
SADD open 17
-> :1
SMOVE open done 17
-> :1
SMOVE open done 17
-> :0
SMEMBERS done
-> *1 $"17"

== SPOP
# string: the member, without a number
# set: the members, with a number
# nil: the key does not exist, without a number
SADD tickets 17
-> :1
SPOP tickets
-> $"17"
SPOP tickets
-> $-1
SPOP tickets 3
-> *0

== SPOP fails
# The number is negative or not an integer.
SPOP tickets -1
-> -ERR value is out of range, must be positive

== SRANDMEMBER
# string: a member, without a number
# array: with a number: different members, or with a negative one as many as it says, which may repeat
# nil: the key does not exist, without a number
SADD tags red
-> :1
SRANDMEMBER tags
-> $"red"
SRANDMEMBER tags -2
-> *2 $"red" $"red"

== SRANDMEMBER fails
# The number is not an integer.
SRANDMEMBER tags some
-> -ERR value is not an integer or out of range

== SREM
# integer: how many of them were members
SADD tags red blue
-> :2
SREM tags blue white
-> :1
SMEMBERS tags
-> *1 $"red"

== SSCAN
# array: the cursor for the next call, 0 at the end; and members
SADD tags red blue
-> :2
SSCAN tags 0
-> *2 $"0" *2 $"blue" $"red"
SSCAN tags 0 MATCH r*
-> *2 $"0" *1 $"red"

== SSCAN fails
# The cursor is not a number.
SSCAN tags x
-> -ERR invalid cursor
# COUNT is not positive.
SSCAN tags 0 COUNT 0
-> -ERR syntax error

== SUNION
# set: the members
SADD ann red blue
-> :2
SADD ben blue green
-> :2
SUNION ann ben
-> *3 $"red" $"blue" $"green"

== SUNIONSTORE
# integer: how many members were stored
SADD ann red blue
-> :2
SADD ben blue green
-> :2
SUNIONSTORE all ann ben
-> :3
SMEMBERS all
-> *3 $"red" $"blue" $"green"
