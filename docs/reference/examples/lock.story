# Commands for locks and elections.

== ELECTION.CAMPAIGN
# integer: the fencing token
# nil: the time was over
ELECTION.CAMPAIGN jobs 10.0.0.7:8000 LEASE 30000 OWNER ann
-> :<<1795602571042001>>
ELECTION.CAMPAIGN jobs 10.0.0.8:8000 TIMEOUT 10 OWNER ben
-> $-1

== ELECTION.CAMPAIGN fails
# The time-out is negative or not an integer.
ELECTION.CAMPAIGN jobs 10.0.0.7:8000 TIMEOUT -1
-> -ERR TIMEOUT is in milliseconds, 0 for no limit
# The lease is out of range.
ELECTION.CAMPAIGN jobs 10.0.0.7:8000 LEASE 0
-> -ERR LEASE is in milliseconds, from 1 to 86400000

== ELECTION.LEADER
# array: token, owner, value, milliseconds left, version
# nil: there is none
ELECTION.LEADER jobs
-> $-1
ELECTION.CAMPAIGN jobs 10.0.0.7:8000 LEASE 30000 OWNER ann
-> :<<1795602571042001>>
ELECTION.LEADER jobs
-> *5 :<<1795602571042001>> $"ann" $"10.0.0.7:8000" :<<29999>> :<<1795602571042001>>

== ELECTION.OBSERVE
# array: token, owner, value, milliseconds left, version; nil, nil, nil, 0 and 0 if there is no leader
# nil: the time was over
ann: ELECTION.OBSERVE jobs AFTER 0
-> ...
ben: ELECTION.CAMPAIGN jobs 10.0.0.7:8000 LEASE 30000 OWNER ben
-> :<<1795602571042001>>
ann <- *5 :<<1795602571042001>> $"ben" $"10.0.0.7:8000" :<<29998>> :<<1795602571042001>>

== ELECTION.OBSERVE fails
# The version is not an integer.
ELECTION.OBSERVE jobs AFTER now
-> -ERR AFTER takes the version that was seen, 0 if there was no leader

== ELECTION.PROCLAIM
# integer: the version; 0 if the token does not lead
ELECTION.CAMPAIGN jobs 10.0.0.7:8000 LEASE 30000 OWNER ann
-> :<<1795602571042001>>
ELECTION.PROCLAIM jobs <<1795602571042001>> 10.0.0.9:8000
-> :<<1795602571042002>>
ELECTION.PROCLAIM jobs 1 10.0.0.9:8000
-> :0

== ELECTION.PROCLAIM fails
# The token is not an integer.
ELECTION.PROCLAIM jobs ann 10.0.0.9:8000
-> -ERR a token is the number that LOCK.ACQUIRE has returned

== ELECTION.RESIGN
# integer: 1 if it led, else 0
ELECTION.CAMPAIGN jobs 10.0.0.7:8000 LEASE 30000 OWNER ann
-> :<<1795602571042001>>
ELECTION.RESIGN jobs <<1795602571042001>>
-> :1
ELECTION.LEADER jobs
-> $-1

== ELECTION.RESIGN fails
# The token is not an integer.
ELECTION.RESIGN jobs ann
-> -ERR a token is the number that LOCK.ACQUIRE has returned

== FENCE
# any: the reply of the command
LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
FENCE report <<1795602571042001>> SET page new
-> +OK
GET page
-> $"new"

== FENCE fails
LOCK.TRY audit LEASE 30000
-> :<<1795602571042001>>
FENCE audit <<1795602571042001>> SET page new
-> +OK
# The shard has seen a larger token.
FENCE audit 16 SET page old
-> -FENCED a larger token of this lock was seen: another client has acquired it since; nothing was done
# The token is not a positive integer.
FENCE audit ann SET page old
-> -ERR FENCE takes a lock and the token that it was granted with, a number

== LOCK.ACQUIRE
# integer: the fencing token
# nil: the time was over
LOCK.ACQUIRE report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
LOCK.ACQUIRE report TIMEOUT 10 OWNER ben
-> $-1

== LOCK.ACQUIRE fails
# The lease is out of range.
LOCK.ACQUIRE report LEASE 0
-> -ERR LEASE is in milliseconds, from 1 to 86400000
# SHARED and LIMIT exclude each other.
LOCK.ACQUIRE report SHARED LIMIT 2
-> -ERR syntax error
# The limit is not a positive integer.
LOCK.ACQUIRE report LIMIT 0
-> -ERR LIMIT is from 1 to 10000

== LOCK.HELD
# integer: the milliseconds; 0 if the token does not hold the lock
LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
LOCK.HELD report <<1795602571042001>>
-> :<<29999>>
LOCK.HELD report 1
-> :0

== LOCK.HELD fails
# The token is not an integer.
LOCK.HELD report ann
-> -ERR a token is the number that LOCK.ACQUIRE has returned

== LOCK.HOLDERS
# array: an array for each holder; empty if the lock is free
LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
LOCK.HOLDERS report
-> *1 *4 :<<1795602571042001>> $"ann" $"alone" :<<29999>>

== LOCK.RELEASE
# integer: 1 if the lock was released, else 0
LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
LOCK.RELEASE report <<1795602571042001>>
-> :1
LOCK.RELEASE report <<1795602571042001>>
-> :0

== LOCK.RELEASE fails
# The token is not an integer.
LOCK.RELEASE report ann
-> -ERR a token is the number that LOCK.ACQUIRE has returned

== LOCK.RENEW
# integer: 1 if the lease begins anew, else 0
LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
LOCK.RENEW report <<1795602571042001>> LEASE 60000
-> :1
LOCK.RENEW report 1
-> :0

== LOCK.RENEW fails
# The lease is out of range.
LOCK.RENEW report 1 LEASE 0
-> -ERR LEASE is in milliseconds, from 1 to 86400000

== LOCK.SECTION
# any: the reply of the command; the token after MULTI
# nil: the lock was not free in time
LOCK.SECTION {report} OWNER ann INCR {report}:count
-> :1
MULTI
-> +OK
LOCK.SECTION {report} OWNER ann
-> +QUEUED
INCR {report}:count
-> +QUEUED
EXEC
-> *2 :<<1796037102525830>> :2

== LOCK.SECTION fails
# It needs a command outside of MULTI.
LOCK.SECTION {report} OWNER ann
-> -ERR LOCK.SECTION without a command belongs behind MULTI
# SHARED and LIMIT exclude each other.
LOCK.SECTION {report} SHARED LIMIT 2 INCR {report}:count
-> -ERR syntax error

== LOCK.TRY
# integer: the fencing token
# nil: the lock is held
LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
LOCK.TRY report LEASE 30000 OWNER ben
-> $-1

== LOCK.TRY fails
# The lease is out of range.
LOCK.TRY report LEASE 0
-> -ERR LEASE is in milliseconds, from 1 to 86400000

== LOCK.WAITERS
# array: an array for each waiter; empty if none waits
ann: LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
ben: LOCK.ACQUIRE report OWNER ben
-> ...
ann: LOCK.WAITERS report
-> *1 *3 $"ben" $"alone" :<<151>>

== LOCK.WANTED
# integer: how many waiters; 0 if the token does not hold the lock
# nil: the time was over
ann: LOCK.TRY report LEASE 30000 OWNER ann
-> :<<1795602571042001>>
ann: LOCK.WANTED report <<1795602571042001>>
-> ...
ben: LOCK.ACQUIRE report OWNER ben
-> ...
ann <- :1

== LOCK.WANTED fails
# The token is not an integer.
LOCK.WANTED report ann
-> -ERR a token is the number that LOCK.ACQUIRE has returned
