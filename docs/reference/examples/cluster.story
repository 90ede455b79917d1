# Cluster commands.

== ASKING
# OK: it has no effect
ASKING
-> +OK

== BACKUP
# array: of BEGIN the number of the cut, for how many microseconds clients had to wait, the name of the cluster, its shard map, and for each shard its number of keys; of READ a piece, and 1 if it is the last
# OK: of END
BACKUP BEGIN
-> *5 :<<7048245793379294>> :<<1038>> $"claret" $"<<epoch 0\nfounders 1,2,3\n...>>" *1 *2 :0 :<<0>>
BACKUP END <<7048245793379294>>
-> +OK

== BACKUP fails
# There is no such cut.
BACKUP READ 1 0 0
-> -NOCUT this shard does not keep the state of that cut (any more): its leader has changed, nobody asked for long, or too much was changed meanwhile; begin again

== CLUSTER
# integer: of KEYSLOT and COUNTKEYSINSLOT
# array: of GETKEYSINSLOT, SHARDS and SLOTS
# string: of INFO, MYID, MYSHARDID and NODES
CLUSTER KEYSLOT order:7
-> :6368
CLUSTER KEYSLOT items:{order:7}
-> :6368
SET order:7 open
-> +OK
CLUSTER GETKEYSINSLOT 6368 10
-> *1 $"order:7"

== CLUSTER fails
# There are 16384 slots, from 0.
CLUSTER COUNTKEYSINSLOT 16384
-> -ERR Invalid or out of range slot

== FAILOVER
# OK: the leadership is handed over
FAILOVER
-> +OK
FAILOVER ABORT
-> +OK

== FAILOVER fails
# There is no such shard.
FAILOVER SHARD 99 TO 2
-> -ERR there is no such shard
# There is no such machine.
FAILOVER SHARD 0 TO 99
-> -ERR there is no such machine in the cluster

== READONLY
# OK: reads are answered from now on
READONLY
-> +OK

== READWRITE
# OK: the mode has ended
READWRITE
-> +OK

== SHARDMAP
# string: the map, or what is asked about it, a line for each fact
# OK: of SET
SHARDMAP LEVELS
-> $"machine 1 level 1\nmachine 2 level 1\nmachine 3 level 1\n"

== SHARDMAP fails
# The map is not valid.
SHARDMAP SET nonsense
-> -ERR 'nonsense' is no line of a shard map
