# Commands for the best items by score.

== TOPK.BEST
# array: the items, with WITHSCORES with their scores
TOPK.INIT game 3
-> +OK
TOPK.PUT game ann 10 ben 30 cid 20
-> +OK
TOPK.BEST game 2 WITHSCORES
-> *4 $"ben" $"30" $"cid" $"20"

== TOPK.BEST fails
# The number is not an integer.
TOPK.BEST game some
-> -ERR value is not an integer or out of range

== TOPK.CAPACITY
# integer: how many items; 10 for an absent key
TOPK.INIT game 3
-> +OK
TOPK.CAPACITY game
-> :3
TOPK.CAPACITY none
-> :10

== TOPK.COUNT
# integer: how many items; 0 for an absent key
TOPK.INIT game 3
-> +OK
TOPK.PUT game ann 10 ben 30
-> +OK
TOPK.COUNT game
-> :2

== TOPK.INIT
# OK: the value was created
TOPK.INIT game 2
-> +OK
TOPK.PUT game ann 10 ben 30 cid 20
-> +OK
TOPK.BEST game
-> *2 $"ben" $"cid"

== TOPK.INIT fails
TOPK.INIT game 2
-> +OK
# The key holds a value with another capacity.
TOPK.INIT game 5
-> -ERR the key exists already, with capacity 2
# The capacity is not a positive integer.
TOPK.INIT other 0
-> -ERR the capacity must be between 1 and 1000000

== TOPK.PUT
# OK: the items were offered
TOPK.INIT game 2
-> +OK
TOPK.PUT game ann 10 ben 30
-> +OK
TOPK.PUT game ann 5 cid 20
-> +OK
TOPK.BEST game
-> *2 $"ben" $"cid"

== TOPK.PUT fails
# The score is not a number.
TOPK.PUT game ann high
-> -ERR value is not a valid float

== TOPK.RANKOF
# integer: how many items are better
# nil: the item is not kept
TOPK.INIT game 3
-> +OK
TOPK.PUT game ann 10 ben 30 cid 20
-> +OK
TOPK.RANKOF game cid
-> :1
TOPK.RANKOF game zoe
-> $-1
