# String commands.

== APPEND
# integer: the new length, in bytes
APPEND note "one "
-> :4
APPEND note two
-> :7
GET note
-> $"one two"

== BITCOUNT
# integer: the number of bits that are 1; 0 for an absent key
SET b foobar
-> +OK
BITCOUNT b
-> :26
BITCOUNT b 0 0
-> :4
BITCOUNT b 5 30 BIT
-> :17

== BITCOUNT fails
# A first position without a last one.
BITCOUNT b 0
-> -ERR syntax error
# A position is not an integer.
BITCOUNT b 0 x
-> -ERR value is not an integer or out of range

== BITFIELD
# array: a number for each GET, SET (the old number) and INCRBY (the new one); nil where OVERFLOW FAIL refused the change
BITFIELD b SET u8 0 200
-> *1 :0
BITFIELD b INCRBY u8 0 10 GET u4 0
-> *2 :210 :13
BITFIELD b OVERFLOW FAIL INCRBY u8 0 100
-> *1 $-1

== BITFIELD fails
# A width above 63 bits without a sign, or above 64 with one.
BITFIELD b GET u64 0
-> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
# The position is not a number, or `#` and a number.
BITFIELD b GET u8 -1
-> -ERR bit offset is not an integer or out of range
# The change is not an integer.
BITFIELD b INCRBY u8 0 x
-> -ERR value is not an integer or out of range
# The way to treat an overflow is none of WRAP, SAT and FAIL.
BITFIELD b OVERFLOW ROUND INCRBY u8 0 1
-> -ERR Invalid OVERFLOW type specified

== BITFIELD_RO
# array: a number for each GET
SET b A
-> +OK
BITFIELD_RO b GET u8 0 GET u4 #1
-> *2 :65 :1

== BITFIELD_RO fails
# It takes only GET.
BITFIELD_RO b SET u8 0 1
-> -ERR BITFIELD_RO only supports the GET subcommand

== BITOP
# integer: the length of the result in bytes
SET a abc
-> +OK
SET b "   "
-> +OK
BITOP XOR both a b
-> :3
GET both
-> $"ABC"

== BITOP fails
# NOT of several strings.
BITOP NOT to a b
-> -ERR BITOP NOT must be called with a single source key.
# DIFF of one string.
BITOP DIFF to a
-> -ERR BITOP DIFF must be called with at least two source keys.

== BITPOS
# integer: the position; -1 if there is none
SET b "\xff\xf0"
-> +OK
BITPOS b 0
-> :12
BITPOS b 1 1
-> :8
BITPOS b 0 0 0
-> :-1

== BITPOS fails
# A bit is 0 or 1.
BITPOS b 2
-> -ERR The bit argument must be 1 or 0.
# A position is not an integer.
BITPOS b 1 x
-> -ERR value is not an integer or out of range

== DECR
# integer: the new value
SET stock 10
-> +OK
DECR stock
-> :9
DECR new
-> :-1

== DECR fails
SET t text
-> +OK
# The value is not an integer of 64 bits.
DECR t
-> -ERR value is not an integer or out of range
SET low -9223372036854775808
-> +OK
# The result would not be an integer of 64 bits.
DECR low
-> -ERR increment or decrement would overflow

== DECRBY
# integer: the new value
SET stock 10
-> +OK
DECRBY stock 3
-> :7

== DECRBY fails
# The decrement is not an integer of 64 bits.
DECRBY stock 1.5
-> -ERR value is not an integer or out of range
SET low -9223372036854775800
-> +OK
# The result would not be an integer of 64 bits.
DECRBY low 100
-> -ERR increment or decrement would overflow

== DELEX
# integer: 1 if the key was removed, else 0
SET lease ann
-> +OK
DELEX lease IFEQ ben
-> :0
DELEX lease IFEQ ann
-> :1

== DELEX fails
# The condition is none that is known.
DELEX lease IFGT 1
-> -ERR syntax error
SET lease ann
-> +OK
# A digest has 16 hexadecimal digits.
DELEX lease IFDEQ ann
-> -ERR a digest must have exactly 16 hexadecimal digits

== DELIFEQ
# integer: 1 if the key was removed, else 0
SET lease ann
-> +OK
DELIFEQ lease ben
-> :0
DELIFEQ lease ann
-> :1

== DIGEST
# string: 16 hexadecimal digits
# nil: the key does not exist
SET greeting hello
-> +OK
DIGEST greeting
-> $"9555e8555c62dcfd"
DIGEST none
-> $-1

== GET
# string: the value
# nil: the key does not exist
SET greeting hello
-> +OK
GET greeting
-> $"hello"
GET none
-> $-1

== GETBIT
# integer: the bit; 0 beyond the end
SET b A
-> +OK
GETBIT b 0
-> :0
GETBIT b 1
-> :1

== GETBIT fails
# The position is not an integer, is negative, or is beyond the largest string.
GETBIT b -1
-> -ERR bit offset is not an integer or out of range

== GETDEL
# string: the value
# nil: the key does not exist
SET code 4711
-> +OK
GETDEL code
-> $"4711"
GETDEL code
-> $-1

== GETEX
# string: the value
# nil: the key does not exist
SET page hello
-> +OK
GETEX page EX 60
-> $"hello"
TTL page
-> :60

== GETEX fails
SET page hello
-> +OK
# The time is 0 or negative.
GETEX page EX 0
-> -ERR invalid expire time in 'getex' command
# Two times, or one with PERSIST.
GETEX page EX 5 PERSIST
-> -ERR syntax error

== GETRANGE
# string: the bytes from the first position to the last one, which is included; negative positions count from the end
SET greeting "hello world"
-> +OK
GETRANGE greeting 0 4
-> $"hello"
GETRANGE greeting -5 -1
-> $"world"

== GETRANGE fails
# A position is not an integer.
GETRANGE greeting 0 x
-> -ERR value is not an integer or out of range

== GETSET
# string: the value before
# nil: the key did not exist
GETSET mode day
-> $-1
GETSET mode night
-> $"day"

== INCR
# integer: the new value
SET visits 10
-> +OK
INCR visits
-> :11
INCR new
-> :1

== INCR fails
SET t text
-> +OK
# The value is not an integer of 64 bits.
INCR t
-> -ERR value is not an integer or out of range
SET high 9223372036854775807
-> +OK
# The result would not be an integer of 64 bits.
INCR high
-> -ERR increment or decrement would overflow

== INCRBY
# integer: the new value
SET visits 10
-> +OK
INCRBY visits 5
-> :15
INCRBY visits -3
-> :12

== INCRBY fails
# The increment is not an integer of 64 bits.
INCRBY visits 1.5
-> -ERR value is not an integer or out of range
SET high 9223372036854775807
-> +OK
# The result would not be an integer of 64 bits.
INCRBY high 10
-> -ERR increment or decrement would overflow

== INCRBYFLOAT
# string: the new value
SET height 1.5
-> +OK
INCRBYFLOAT height 0.25
-> $"1.75"
INCRBYFLOAT height -1e-1
-> $"1.65"

== INCRBYFLOAT fails
# The increment is not a number.
INCRBYFLOAT height high
-> -ERR value is not a valid float
SET t text
-> +OK
# The value is not a number.
INCRBYFLOAT t 1
-> -ERR value is not a valid float

== INCREX
# array: the new value, and what was added
SET seats 8
-> +OK
INCREX seats BYINT 5 UBOUND 10
-> *2 :8 :0
INCREX seats BYINT 5 UBOUND 10 SATURATE
-> *2 :10 :2

== INCREX fails
SET t text
-> +OK
# The value is not an integer of 64 bits.
INCREX t BYINT 1
-> -ERR value is not an integer or out of range
# The lower bound is above the upper one.
INCREX n BYINT 1 LBOUND 5 UBOUND 1
-> -ERR LBOUND can't be greater than UBOUND

== LCS
# string: the longest common subsequence
# integer: its length, with LEN
# map: the matches and the length, with IDX
SET one ohmytext
-> +OK
SET other mynewtext
-> +OK
LCS one other
-> $"mytext"
LCS one other LEN
-> :6
LCS one other IDX MINMATCHLEN 4
-> *4 $"matches" *1 *2 *2 :4 :7 *2 :5 :8 $"len" :6

== LCS fails
# LEN and IDX exclude each other.
LCS one other LEN IDX
-> -ERR If you want both the length and indexes, please just use IDX.

== MGET
# array: the value of each key; nil where there is no string
MSET a 1 b 2
-> +OK
MGET a none b
-> *3 $"1" $-1 $"2"

== MSET
# OK: the value was set
MSET a 1 b 2
-> +OK
GET b
-> $"2"

== MSET fails
# A key without a value.
MSET a 1 b
-> -ERR wrong number of arguments for 'mset' command

== MSETEX
# integer: 1 if the keys were set, else 0
MSETEX 2 a 1 b 2 NX EX 60
-> :1
MSETEX 2 b 3 c 4 NX
-> :0
TTL a
-> :60

== MSETEX fails
# The number of keys is not a positive integer.
MSETEX 0 a 1
-> -ERR invalid numkeys value
# Fewer values than keys.
MSETEX 2 a 1 b
-> -ERR wrong number of key-value pairs
# The time is 0 or negative.
MSETEX 1 a 1 EX 0
-> -ERR invalid expire time in 'msetex' command

== MSETNX
# integer: 1 if the keys were set; 0 if one of them existed, and nothing is set
MSETNX a 1 b 2
-> :1
MSETNX b 3 c 4
-> :0
EXISTS c
-> :0

== PSETEX
# OK: the value was set
PSETEX session 60000 ann
-> +OK
TTL session
-> :60

== PSETEX fails
# The time is 0 or negative.
PSETEX session 0 ann
-> -ERR invalid expire time in 'psetex' command

== SET
# OK: the value was set
# nil: a condition did not hold; with GET, the key did not exist
# string: the value before, with GET
SET greeting hello
-> +OK
SET greeting bye NX
-> $-1
SET greeting bye IFEQ hello
-> +OK
SET greeting ciao GET EX 60
-> $"bye"

== SET fails
# Two conditions, or two times.
SET greeting hello NX XX
-> -ERR syntax error
# The time is 0 or negative.
SET greeting hello EX 0
-> -ERR invalid expire time in 'set' command
# The time is not an integer.
SET greeting hello PX soon
-> -ERR value is not an integer or out of range

== SETBIT
# integer: the bit before
SETBIT b 1 1
-> :0
SETBIT b 7 1
-> :0
GET b
-> $"A"

== SETBIT fails
# A bit is 0 or 1.
SETBIT b 0 2
-> -ERR bit is not an integer or out of range
# The position is not an integer, is negative, or is beyond the largest string.
SETBIT b -1 1
-> -ERR bit offset is not an integer or out of range

== SETEX
# OK: the value was set
SETEX session 60 ann
-> +OK
TTL session
-> :60

== SETEX fails
# The time is 0 or negative.
SETEX session 0 ann
-> -ERR invalid expire time in 'setex' command

== SETNX
# integer: 1 if the key was set; 0 if it existed
SETNX leader ann
-> :1
SETNX leader ben
-> :0
GET leader
-> $"ann"

== SETRANGE
# integer: the new length, in bytes
SET greeting "hello world"
-> +OK
SETRANGE greeting 6 Redis
-> :11
GET greeting
-> $"hello Redis"

== SETRANGE fails
# The position is negative.
SETRANGE greeting -1 x
-> -ERR offset is out of range
# The string would become too long.
SETRANGE greeting 600000000 x
-> -ERR string exceeds maximum allowed size (at most 8388608 bytes)

== STRLEN
# integer: the length in bytes; 0 for an absent key
SET greeting hello
-> +OK
STRLEN greeting
-> :5
STRLEN none
-> :0

== SUBSTR
# string: the bytes from the first position to the last one, which is included
SET greeting hello
-> +OK
SUBSTR greeting 1 3
-> $"ell"
