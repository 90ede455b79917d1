# Commands of transactions.

== DISCARD
# OK: the queued commands are forgotten
MULTI
-> +OK
INCR visits
-> +QUEUED
DISCARD
-> +OK
EXISTS visits
-> :0

== DISCARD fails
# There is no MULTI before it.
DISCARD
-> -ERR DISCARD without MULTI

== EXEC
# array: the replies of the queued commands, in their order
# nil: a watched key has changed, or a condition does not hold
MULTI
-> +OK
INCRBY ann -5
-> +QUEUED
INCRBY ben 5
-> +QUEUED
EXEC NX locked
-> *2 :-5 :5

== EXEC fails
# There is no MULTI before it.
EXEC
-> -ERR EXEC without MULTI
MULTI
-> +OK
FLY away
-> -ERR unknown command 'FLY', with args beginning with: 'away'
# A command could not be queued.
EXEC
-> -EXECABORT Transaction discarded because of previous errors.

== MULTI
# OK: commands are queued from now on
MULTI
-> +OK
SET page hello
-> +QUEUED
INCR visits
-> +QUEUED
EXEC
-> *2 +OK :1

== MULTI fails
MULTI
-> +OK
# A MULTI does not begin in another one.
MULTI
-> -ERR MULTI calls can not be nested

== TXN
# OK: of BEGIN and ABORT
# array: of COMMIT the replies that the commands did not get before: all writes, after BEGIN BLIND; of HOLDERS the transactions
# integer: of RESOLVE 1 if the transaction took effect, else 0
SET seats 3
-> +OK
TXN BEGIN
-> +OK
GET seats
-> $"3"
DECR seats
-> :2
TXN COMMIT
-> *0

== TXN fails
# No transaction is open.
TXN COMMIT
-> -ERR TXN COMMIT without TXN BEGIN
TXN BEGIN
-> +OK
# One is open.
TXN BEGIN
-> -ERR TXN calls can not be nested

== UNWATCH
# OK: no key is watched any more
WATCH page
-> +OK
UNWATCH
-> +OK

== WATCH
# OK: the keys are watched
ann: SET seats 3
-> +OK
ann: WATCH seats
-> +OK
ben: DECR seats
-> :2
ann: MULTI
-> +OK
ann: DECR seats
-> +QUEUED
ann: EXEC
-> *-1

== WATCH fails
MULTI
-> +OK
# It comes before MULTI.
WATCH page
-> -ERR WATCH inside MULTI is not allowed
