# Commands for keys of any type.

== COPY
# integer: 1 if the value was copied; 0 if there is none, or the destination exists and REPLACE is not given
SET page hello
-> +OK
COPY page draft
-> :1
COPY page draft
-> :0
GET draft
-> $"hello"

== COPY fails
# There are 16 databases, from 0.
COPY page draft DB 16
-> -ERR DB index is out of range
# Source and destination are the same.
COPY page page
-> -ERR source and destination objects are the same

== DEL
# integer: how many of the keys existed
MSET a 1 b 2
-> +OK
DEL a b c
-> :2

== EXISTS
# integer: how many of the keys exist; a key that is named twice counts twice
SET a 1
-> +OK
EXISTS a b
-> :1
EXISTS a a
-> :2

== EXPIRE
# integer: 1 if the time was set; 0 if the key does not exist, or the condition did not hold
SET session ann
-> +OK
EXPIRE session 60
-> :1
EXPIRE session 30 GT
-> :0
TTL session
-> :60

== EXPIRE fails
# The time is not an integer.
EXPIRE session soon
-> -ERR value is not an integer or out of range
# The time is too far from now.
EXPIRE session 9223372036854775807
-> -ERR invalid expire time in 'expire' command
# NX excludes the other conditions.
EXPIRE session 60 NX GT
-> -ERR NX and XX, GT or LT options at the same time are not compatible
# GT and LT exclude each other.
EXPIRE session 60 GT LT
-> -ERR GT and LT options at the same time are not compatible

== EXPIREAT
# integer: 1 if the time was set; 0 if the key does not exist, or the condition did not hold
SET session ann
-> +OK
EXPIREAT session 4102444800
-> :1
EXPIRETIME session
-> :4102444800

== EXPIREAT fails
# The time is not an integer.
EXPIREAT session tomorrow
-> -ERR value is not an integer or out of range
# NX excludes the other conditions.
EXPIREAT session 4102444800 NX GT
-> -ERR NX and XX, GT or LT options at the same time are not compatible

== EXPIRETIME
# integer: the time in seconds since 1970; -1 if the key does not expire; -2 if it does not exist
SET session ann
-> +OK
EXPIRETIME session
-> :-1
EXPIREAT session 4102444800
-> :1
EXPIRETIME session
-> :4102444800

== KEYS
# array: the keys
MSET user:1 ann user:2 ben page hello
-> +OK
KEYS user:*
-> *2 $"user:1" $"user:2"
KEYS user:[2-9]
-> *1 $"user:2"

== MEMORY
# integer: the bytes, of USAGE
# nil: the key does not exist, of USAGE
SET page hello
-> +OK
MEMORY USAGE page
-> :<<69>>
MEMORY USAGE none
-> $-1

== MOVE
# integer: 1 if the key was moved; 0 if it does not exist, or exists in the other database
SET page hello
-> +OK
MOVE page 1
-> :1
SELECT 1
-> +OK
GET page
-> $"hello"

== MOVE fails
# There are 16 databases, from 0.
MOVE page 16
-> -ERR DB index is out of range
# The database is the one that is selected.
MOVE page 0
-> -ERR source and destination objects are the same

== OBJECT
# string: the type, of ENCODING
# integer: seconds since the last write, of IDLETIME; 1, of REFCOUNT
# nil: the key does not exist
HSET ann city Paris
-> :1
OBJECT ENCODING ann
-> $"hash"
OBJECT IDLETIME ann
-> :0
OBJECT ENCODING none
-> $-1

== OBJECT fails
SET a 1
-> +OK
# There is no eviction by frequency of use.
OBJECT FREQ a
-> -ERR An LFU maxmemory policy is not selected, access frequency not tracked.

== PERSIST
# integer: 1 if the key expired; 0 if it did not, or does not exist
SET session ann EX 60
-> +OK
PERSIST session
-> :1
TTL session
-> :-1

== PEXPIRE
# integer: 1 if the time was set; 0 if the key does not exist, or the condition did not hold
SET session ann
-> +OK
PEXPIRE session 60000
-> :1
PEXPIRE session 90000 NX
-> :0
TTL session
-> :60

== PEXPIRE fails
# The time is not an integer.
PEXPIRE session soon
-> -ERR value is not an integer or out of range
# NX excludes the other conditions.
PEXPIRE session 60000 NX XX
-> -ERR NX and XX, GT or LT options at the same time are not compatible

== PEXPIREAT
# integer: 1 if the time was set; 0 if the key does not exist, or the condition did not hold
SET session ann
-> +OK
PEXPIREAT session 4102444800000
-> :1
EXPIRETIME session
-> :4102444800

== PEXPIREAT fails
# The time is not an integer.
PEXPIREAT session tomorrow
-> -ERR value is not an integer or out of range

== PEXPIRETIME
# integer: the time in milliseconds since 1970; -1 if the key does not expire; -2 if it does not exist
SET session ann
-> +OK
EXPIREAT session 4102444800
-> :1
PEXPIRETIME session
-> :4102444800000

== PTTL
# integer: the milliseconds; -1 if the key does not expire; -2 if it does not exist
SET session ann EX 60
-> +OK
PTTL session
-> :<<59998>>
PTTL none
-> :-2

== RANDOMKEY
# string: a key
# nil: the database is empty
RANDOMKEY
-> $-1
SET page hello
-> +OK
RANDOMKEY
-> $"page"

== RENAME
# OK: the key was renamed
SET draft hello
-> +OK
RENAME draft page
-> +OK
GET page
-> $"hello"

== RENAME fails
# The key does not exist.
RENAME draft page
-> -ERR no such key

== RENAMENX
# integer: 1 if the key was renamed; 0 if the new name exists
MSET draft hello page bye
-> +OK
RENAMENX draft page
-> :0
RENAMENX draft letter
-> :1

== RENAMENX fails
# The key does not exist.
RENAMENX draft page
-> -ERR no such key

== SCAN
# array: the cursor for the next call, 0 at the end; and keys
MSET user:1 ann page hello
-> +OK
SCAN 0 MATCH user:* COUNT 100
-> *2 $"0" *1 $"user:1"

== SCAN fails
# The cursor is not one that a page has returned.
SCAN x
-> -ERR invalid cursor
# COUNT is not positive.
SCAN 0 COUNT 0
-> -ERR syntax error

== SORT
# array: the elements, or what GET names; nil where that does not exist
# integer: how many elements were stored, with STORE
RPUSH ids 3 1 2
-> :3
MSET name:1 ann name:2 ben
-> +OK
SORT ids DESC LIMIT 0 2
-> *2 $"3" $"2"
SORT ids GET # GET name:*
-> *6 $"1" $"ann" $"2" $"ben" $"3" $-1
SORT ids STORE sorted
-> :3

== SORT fails
RPUSH names ann ben
-> :2
# An element is not a number, and ALPHA is not given.
SORT names
-> -ERR One or more scores can't be converted into double

== SORT_RO
# array: the elements, or what GET names; nil where that does not exist
RPUSH names cid ann ben
-> :3
SORT_RO names ALPHA
-> *3 $"ann" $"ben" $"cid"
SORT_RO names ALPHA DESC LIMIT 0 1
-> *1 $"cid"

== SORT_RO fails
RPUSH names ann ben
-> :2
# An element is not a number, and ALPHA is not given.
SORT_RO names
-> -ERR One or more scores can't be converted into double

== TOUCH
# integer: how many of the keys exist
MSET a 1 b 2
-> +OK
TOUCH a b c
-> :2

== TTL
# integer: the seconds; -1 if the key does not expire; -2 if it does not exist
SET session ann EX 60
-> +OK
TTL session
-> :60
TTL none
-> :-2

== TYPE
# simple: the type, `none` for an absent key
RPUSH jobs clean
-> :1
TYPE jobs
-> +list
TYPE none
-> +none

== UNLINK
# integer: how many of the keys existed
MSET a 1 b 2
-> +OK
UNLINK a b c
-> :2
