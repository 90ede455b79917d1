# Commands for bags: count, sum, mean and extremes of numbers that many clients add.

== BAG.ADD
# OK: the numbers were added
BAG.ADD latency 12 15.5 9
-> +OK
BAG.COUNT latency
-> :3

== BAG.ADD fails
# One of them is not a number.
BAG.ADD latency 12 slow
-> -ERR a number must be decimal, within 1e12 of 0, with up to 9 digits after the point

== BAG.COUNT
# integer: how many numbers; 0 for an absent key
BAG.ADD latency 12 15.5 9
-> +OK
BAG.COUNT latency
-> :3

== BAG.MAX
# string: the largest number
# nil: the key does not exist
BAG.ADD latency 12 15.5 9
-> +OK
BAG.MAX latency
-> $"15.5"
BAG.MAX none
-> $-1

== BAG.MEAN
# double: the mean
# nil: the key does not exist
BAG.ADD latency 10 20 30
-> +OK
BAG.MEAN latency
-> $"20"
BAG.MEAN none
-> $-1

== BAG.MIN
# string: the smallest number
# nil: the key does not exist
BAG.ADD latency 12 15.5 9
-> +OK
BAG.MIN latency
-> $"9"
BAG.MIN none
-> $-1

== BAG.STATS
# map: each of them with its name; nil where there is no number
BAG.ADD latency 10 20 30
-> +OK
BAG.STATS latency
-> *12 $"count" :3 $"sum" $"60" $"mean" $"20" $"min" $"10" $"max" $"30" $"variance" $"66.66666666666666"

== BAG.SUM
# string: the sum; 0 for an absent key
BAG.ADD bill 0.1 0.2
-> +OK
BAG.SUM bill
-> $"0.3"
BAG.SUM none
-> $"0"
