# Commands for barriers.

== BARRIER.WAIT
# integer: the number of the generation
# nil: the time was over
ann: BARRIER.WAIT start 2 OWNER ann
-> ...
ben: BARRIER.WAIT start 2 OWNER ben
-> :<<1>>
ann <- :<<1>>
ann: BARRIER.WAIT start 2 TIMEOUT 10
-> $-1

== BARRIER.WAIT fails
# The number of parties is not a positive integer.
BARRIER.WAIT start 0
-> -ERR a barrier is for 1 to 10000 parties

== BARRIER.WAITING
# array: an array for each party; empty if none waits
ann: BARRIER.WAIT start 2 OWNER ann
-> ...
ben: BARRIER.WAITING start
-> *1 *3 $"ann" :2 :<<151>>
