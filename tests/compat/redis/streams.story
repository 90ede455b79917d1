# Streams: clients that wait, groups, and what is true of keys in general.

== an entry is read by each client that waits for it
one: XREAD BLOCK 0 STREAMS s $
-> ...
two: XREAD BLOCK 0 COUNT 5 STREAMS s 0
-> ...
XADD s 1-1 a b
-> $"1-1"
one <- *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"b"
two <- *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"b"
one: XREAD BLOCK 0 STREAMS s $
-> ...
XADD s 1-2 c d
-> $"1-2"
one <- *1 *2 $"s" *1 *2 $"1-2" *2 $"c" $"d"
two: XREAD BLOCK 0 STREAMS s 1-1
-> *1 *2 $"s" *1 *2 $"1-2" *2 $"c" $"d"

== what is there is read without a wait, of all streams
XADD s 1-1 a b
-> $"1-1"
XADD t 2-1 c d
-> $"2-1"
XREAD BLOCK 0 STREAMS s t 0 0
-> *2 *2 $"s" *1 *2 $"1-1" *2 $"a" $"b" *2 $"t" *1 *2 $"2-1" *2 $"c" $"d"
XREAD BLOCK 10 STREAMS s t $ $
-> *-1
XREAD BLOCK 10 STREAMS none $
-> *-1
XREAD COUNT 1 BLOCK 0 STREAMS none s t 0 0 $
-> *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"b"

== a client that waits for several streams is served by one
one: XREAD BLOCK 0 STREAMS s t u $ $ $
-> ...
XADD t 1-1 a b
-> $"1-1"
one <- *1 *2 $"t" *1 *2 $"1-1" *2 $"a" $"b"
one: XREAD BLOCK 0 STREAMS s t u 0 $ $
-> ...
XADD v 1-1 a b
-> $"1-1"
XADD u 1-1 a b
-> $"1-1"
one <- *1 *2 $"u" *1 *2 $"1-1" *2 $"a" $"b"

== consumers are served in the order of arrival, each entry goes to one
XGROUP CREATE s g $ MKSTREAM
-> +OK
one: XREADGROUP GROUP g one BLOCK 0 COUNT 1 STREAMS s >
-> ...
two: XREADGROUP GROUP g two BLOCK 0 STREAMS s >
-> ...
three: XREADGROUP GROUP g three BLOCK 0 NOACK STREAMS s >
-> ...
XADD s 1-1 a 1
-> $"1-1"
one <- *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"1"
XADD s 1-2 a 2
-> $"1-2"
two <- *1 *2 $"s" *1 *2 $"1-2" *2 $"a" $"2"
XADD s 1-3 a 3
-> $"1-3"
three <- *1 *2 $"s" *1 *2 $"1-3" *2 $"a" $"3"
XPENDING s g
-> *4 :2 $"1-1" $"1-2" *2 *2 $"one" $"1" *2 $"two" $"1"
XACK s g 1-1
-> :1
XPENDING s g
-> *4 :1 $"1-2" $"1-2" *1 *2 $"two" $"1"

== consumers of two groups get the same entry
XGROUP CREATE s g $ MKSTREAM
-> +OK
XGROUP CREATE s h $
-> +OK
one: XREADGROUP GROUP g one BLOCK 0 STREAMS s >
-> ...
two: XREADGROUP GROUP h one BLOCK 0 STREAMS s >
-> ...
reader: XREAD BLOCK 0 STREAMS s $
-> ...
XADD s 1-1 a 1
-> $"1-1"
one <- *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"1"
two <- *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"1"
reader <- *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"1"

== a consumer that waits for two streams of a group
XGROUP CREATE s g $ MKSTREAM
-> +OK
XGROUP CREATE t g $ MKSTREAM
-> +OK
one: XREADGROUP GROUP g one BLOCK 0 STREAMS s t > >
-> ...
XADD t 1-1 a 1
-> $"1-1"
one <- *1 *2 $"t" *1 *2 $"1-1" *2 $"a" $"1"
XADD s 1-1 a 1
-> $"1-1"
XADD t 1-2 a 1
-> $"1-2"
one: XREADGROUP GROUP g one BLOCK 0 STREAMS s t > >
-> *2 *2 $"s" *1 *2 $"1-1" *2 $"a" $"1" *2 $"t" *1 *2 $"1-2" *2 $"a" $"1"
one: XREADGROUP GROUP g one BLOCK 0 STREAMS s t 0 0
-> *2 *2 $"s" *1 *2 $"1-1" *2 $"a" $"1" *2 $"t" *2 *2 $"1-1" *2 $"a" $"1" *2 $"1-2" *2 $"a" $"1"
XPENDING t g
-> *4 :2 $"1-1" $"1-2" *1 *2 $"one" $"2"

== waits for what is not there, or of another type
SET x 1
-> +OK
XREADGROUP GROUP g one BLOCK 0 STREAMS s >
-> -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
XGROUP CREATE s g $ MKSTREAM
-> +OK
XREADGROUP GROUP g one BLOCK 0 STREAMS s none > >
-> -NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
XREADGROUP GROUP none one BLOCK 0 STREAMS s >
-> -NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option
XREAD BLOCK 0 STREAMS x $
-> -WRONGTYPE Operation against a key holding the wrong kind of value
XREAD BLOCK 0 STREAMS x 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
XREADGROUP GROUP g one BLOCK 0 STREAMS x >
-> -WRONGTYPE Operation against a key holding the wrong kind of value
XREAD BLOCK -1 STREAMS s $
-> -ERR timeout is negative
XREAD BLOCK y STREAMS s $
-> -ERR timeout is not an integer or out of range
XREADGROUP GROUP g one BLOCK 20 STREAMS s >
-> *-1
XINFO GROUPS s
-> *1 *12 $"name" $"g" $"consumers" :0 $"pending" :0 $"last-delivered-id" $"0-0" $"entries-read" $-1 $"lag" :0

== a transaction does not wait
MULTI
-> +OK
XREAD BLOCK 0 STREAMS s $
-> +QUEUED
XADD s 1-1 a b
-> +QUEUED
XREAD BLOCK 0 STREAMS s $
-> +QUEUED
XREAD BLOCK 0 STREAMS s 0
-> +QUEUED
XGROUP CREATE s g 0
-> +QUEUED
XREADGROUP GROUP g one BLOCK 0 STREAMS s >
-> +QUEUED
XREADGROUP GROUP g one BLOCK 0 STREAMS s >
-> +QUEUED
EXEC
-> *7 *-1 $"1-1" *-1 *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"b" +OK *1 *2 $"s" *1 *2 $"1-1" *2 $"a" $"b" *-1

== entries that come in a transaction, or with a renamed key
one: XREAD BLOCK 0 STREAMS s $
-> ...
MULTI
-> +OK
XADD s 1-1 a b
-> +QUEUED
XADD s 1-2 a b
-> +QUEUED
EXEC
-> *2 $"1-1" $"1-2"
one <- *1 *2 $"s" *2 *2 $"1-1" *2 $"a" $"b" *2 $"1-2" *2 $"a" $"b"
XADD t 5-1 a b
-> $"5-1"
two: XREAD BLOCK 0 STREAMS u 0
-> ...
RENAME t u
-> +OK
two <- *1 *2 $"u" *1 *2 $"5-1" *2 $"a" $"b"

== a watched stream
XADD s 1-1 a b
-> $"1-1"
WATCH s
-> +OK
other: XADD s 1-2 a b
-> $"1-2"
MULTI
-> +OK
XLEN s
-> +QUEUED
EXEC
-> *-1
WATCH s
-> +OK
other: XDEL s 9-9
-> :0
other: XACK s g 1-1
-> :0
MULTI
-> +OK
XLEN s
-> +QUEUED
EXEC
-> *1 :2

== a stream lives on without entries, and can expire
XADD s 1-1 a b
-> $"1-1"
XDEL s 1-1
-> :1
XLEN s
-> :0
EXISTS s
-> :1
XADD s 1-1 a b
-> -ERR The ID specified in XADD is equal or smaller than the target stream top item
EXPIRE s 100
-> :1
XADD s 2-1 a b
-> $"2-1"
PERSIST s
-> :1
COPY s t
-> :1
XRANGE t - +
-> *1 *2 $"2-1" *2 $"a" $"b"
DEL t
-> :1
SCAN 0 TYPE stream COUNT 100
-> *2 $"0" *1 $"s"
DEL s t
-> :1
XLEN s
-> :0
