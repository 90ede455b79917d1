# Stream commands.

== XACK
# integer: how many entries were pending
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XACK mail sender 1-1
-> :1
XACK mail sender 1-1
-> :0

== XACK fails
# An id is not valid.
XACK mail sender first
-> -ERR Invalid stream ID specified as stream command argument

== XACKDEL
# array: for each entry 1 if it was removed, 2 if it was acknowledged and others still refer to it, -1 if there is none
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XACKDEL mail sender IDS 2 1-1 9-9
-> *2 :1 :-1

== XACKDEL fails
# The number of ids is not that of the arguments.
XACKDEL mail sender IDS 2 1-1
-> -ERR The `numids` parameter must match the number of arguments

== XADD
# string: the id of the entry
# nil: the key does not exist, with NOMKSTREAM
XADD mail * to ann
-> $"<<1796037008770-1110249046016>>"
XADD mail NOMKSTREAM MAXLEN 1000 * to ben
-> $"<<1796037008771-178241142784>>"
XADD none NOMKSTREAM * to ben
-> $-1

== XADD fails
XADD mail 5-1 to ann
-> $"5-1"
# The id is not larger than the last one.
XADD mail 5-1 to ben
-> -ERR The ID specified in XADD is equal or smaller than the target stream top item
# The id is not valid.
XADD mail first to ann
-> -ERR Invalid stream ID specified as stream command argument
# The id is 0-0.
XADD other 0-0 to ann
-> -ERR The ID specified in XADD must be greater than 0-0

== XAUTOCLAIM
# array: the id for the next call, `0-0` at the end; the entries; and the ids of entries that no longer exist
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XAUTOCLAIM mail sender w2 0 0
-> *3 $"0-0" *1 *2 $"1-1" *2 $"to" $"ann" *0

== XAUTOCLAIM fails
XADD mail 1-1 to ann
-> $"1-1"
# The group does not exist.
XAUTOCLAIM mail none w2 0 0
-> -NOGROUP No such key 'mail' or consumer group 'none'
# COUNT is not positive.
XAUTOCLAIM mail none w2 0 0 COUNT 0
-> -ERR COUNT must be > 0

== XCFGSET
# OK: the settings are changed
XADD mail 1-1 to ann
-> $"1-1"
XCFGSET mail IDMP-DURATION 300 IDMP-MAXSIZE 1000
-> +OK

== XCFGSET fails
# The key does not exist.
XCFGSET none IDMP-DURATION 300
-> -ERR no such key
# The duration is out of range.
XCFGSET mail IDMP-DURATION 0
-> -ERR IDMP-DURATION must be between 1 and 86400 seconds

== XCLAIM
# array: the entries that are the consumer's now; with JUSTID their ids
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XCLAIM mail sender w2 0 1-1
-> *1 *2 $"1-1" *2 $"to" $"ann"

== XCLAIM fails
XADD mail 1-1 to ann
-> $"1-1"
# The group does not exist.
XCLAIM mail none w2 0 1-1
-> -NOGROUP No such key 'mail' or consumer group 'none'
# The idle time is not an integer.
XCLAIM mail none w2 long 1-1
-> -ERR Invalid min-idle-time argument for XCLAIM

== XDEL
# integer: how many of the entries were there
XADD mail 1-1 to ann
-> $"1-1"
XDEL mail 1-1 9-9
-> :1

== XDEL fails
# An id is not valid.
XDEL mail first
-> -ERR Invalid stream ID specified as stream command argument

== XDELEX
# array: for each entry 1 if it was removed, 2 if it was not because others refer to it, -1 if there is none
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XDELEX mail ACKED IDS 2 1-1 9-9
-> *2 :2 :-1
XDELEX mail IDS 1 1-1
-> *1 :1

== XDELEX fails
# The number of ids is not that of the arguments.
XDELEX mail IDS 2 1-1
-> -ERR The `numids` parameter must match the number of arguments

== XGROUP
# OK: of CREATE and SETID
# integer: of CREATECONSUMER and DESTROY 1 or 0, of DELCONSUMER how many entries were pending
XGROUP CREATE mail sender $ MKSTREAM
-> +OK
XGROUP CREATECONSUMER mail sender w1
-> :1
XGROUP DESTROY mail sender
-> :1

== XGROUP fails
# The key does not exist, and MKSTREAM is not given.
XGROUP CREATE none sender $
-> -ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
XGROUP CREATE mail sender $ MKSTREAM
-> +OK
# The group exists.
XGROUP CREATE mail sender $
-> -BUSYGROUP Consumer Group name already exists
# The group does not exist.
XGROUP CREATECONSUMER mail none w1
-> -NOGROUP No such consumer group 'none' for key name 'mail'

== XINFO
# map: of STREAM
# array: of GROUPS and CONSUMERS a map for each
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XINFO GROUPS mail
-> *1 *12 $"name" $"sender" $"consumers" :0 $"pending" :0 $"last-delivered-id" $"0-0" $"entries-read" $-1 $"lag" :1

== XINFO fails
# The key does not exist.
XINFO STREAM none
-> -ERR no such key
XADD mail 1-1 to ann
-> $"1-1"
# The group does not exist.
XINFO CONSUMERS mail none
-> -NOGROUP No such consumer group 'none' for key name 'mail'

== XLEN
# integer: how many entries; 0 for an absent key
XADD mail * to ann
-> $"<<1796037008826-820338753536>>"
XADD mail * to ben
-> $"<<1796037008826-1604170285056>>"
XLEN mail
-> :2

== XNACK
# integer: how many entries were pending
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XNACK mail sender FAIL IDS 1 1-1
-> :1
XREADGROUP GROUP sender w2 CLAIM 0 STREAMS mail >
-> *1 *2 $"mail" *1 *4 $"1-1" *2 $"to" $"ann" :<<1796037008829>> :1

== XNACK fails
# Neither SILENT, FAIL nor FATAL.
XNACK mail sender LOUD IDS 1 1-1
-> -ERR mode must be SILENT, FAIL, or FATAL
# The number of ids is not that of the arguments.
XNACK mail sender FAIL IDS 2 1-1
-> -ERR number of IDs doesn't match numids

== XPENDING
# array: how many, the smallest and the largest id, and how many each consumer has; with a range for each entry id, consumer, milliseconds since its delivery, and how often it was delivered
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XPENDING mail sender
-> *4 :1 $"1-1" $"1-1" *1 *2 $"w1" $"1"
XPENDING mail sender - + 10
-> *1 *4 $"1-1" $"w1" :<<2>> :1

== XPENDING fails
XADD mail 1-1 to ann
-> $"1-1"
# The group does not exist.
XPENDING mail none
-> -NOGROUP No such key 'mail' or consumer group 'none'

== XRANGE
# array: for each entry its id, and its fields with their values
XADD mail 1-1 to ann
-> $"1-1"
XADD mail 2-1 to ben
-> $"2-1"
XRANGE mail - +
-> *2 *2 $"1-1" *2 $"to" $"ann" *2 $"2-1" *2 $"to" $"ben"
XRANGE mail (1-1 + COUNT 1
-> *1 *2 $"2-1" *2 $"to" $"ben"

== XRANGE fails
# An id is not valid.
XRANGE mail first +
-> -ERR Invalid stream ID specified as stream command argument

== XREAD
# map: each stream with its entries
# nil: there are none, or the time was over
ann: XREAD BLOCK 0 STREAMS mail $
-> ...
ben: XADD mail 1-1 to ann
-> $"1-1"
ann <- *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
ann: XREAD STREAMS mail 1-1
-> *-1

== XREAD fails
# As many keys as ids.
XREAD STREAMS mail other 0
-> -ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.
# `>` is for groups.
XREAD STREAMS mail >
-> -ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.

== XREADGROUP
# map: each stream with its entries
# nil: there are none, or the time was over
XADD mail 1-1 to ann
-> $"1-1"
XGROUP CREATE mail sender 0
-> +OK
XREADGROUP GROUP sender w1 STREAMS mail >
-> *1 *2 $"mail" *1 *2 $"1-1" *2 $"to" $"ann"
XREADGROUP GROUP sender w2 STREAMS mail >
-> *-1

== XREADGROUP fails
XADD mail 1-1 to ann
-> $"1-1"
# The group does not exist.
XREADGROUP GROUP none w1 STREAMS mail >
-> -NOGROUP No such key 'mail' or consumer group 'none' in XREADGROUP with GROUP option
# `$` is for XREAD.
XREADGROUP GROUP sender w1 STREAMS mail $
-> -ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.

== XREVRANGE
# array: for each entry its id, and its fields with their values
XADD mail 1-1 to ann
-> $"1-1"
XADD mail 2-1 to ben
-> $"2-1"
XREVRANGE mail + - COUNT 1
-> *1 *2 $"2-1" *2 $"to" $"ben"

== XREVRANGE fails
# An id is not valid.
XREVRANGE mail last -
-> -ERR Invalid stream ID specified as stream command argument

== XSETID
# OK: the id is set
XADD mail 1-1 to ann
-> $"1-1"
XSETID mail 9-0
-> +OK
XADD mail 9-* to ben
-> $"9-1"

== XSETID fails
# The key does not exist.
XSETID none 9-0
-> -ERR no such key
XADD mail 5-1 to ann
-> $"5-1"
# The stream has an entry with a larger id.
XSETID mail 1-0
-> -ERR The ID specified in XSETID is smaller than the target stream top item

== XTRIM
# integer: how many entries were removed
XADD mail 1-1 to ann
-> $"1-1"
XADD mail 2-1 to ben
-> $"2-1"
XTRIM mail MAXLEN 1
-> :1

== XTRIM fails
# The number is negative or not an integer.
XTRIM mail MAXLEN -1
-> -ERR The MAXLEN argument must be >= 0.
# LIMIT needs `~`.
XTRIM mail MAXLEN 5 LIMIT 10
-> -ERR syntax error, LIMIT cannot be used without the special ~ option
