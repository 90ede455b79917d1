# Bits: positions, integers of some bits, and strings combined bit by bit.

== bits
BITPOS none 0
-> :0
BITPOS none 1
-> :-1
SET ones "\xff\xff\xff"
-> +OK
BITPOS ones 0
-> :24
BITPOS ones 0 0 -1
-> :-1
BITPOS ones 0 1
-> :24
BITPOS ones 1 1
-> :8
BITPOS ones 1 3
-> :-1
BITPOS ones 1 -1 -1
-> :16
BITPOS ones 1 9 9 BIT
-> :9
BITPOS ones 0 9 -1 BIT
-> :-1
BITPOS ones 0 9
-> :-1
BITPOS ones 1 -100 -50
-> :0
BITPOS ones 2
-> -ERR The bit argument must be 1 or 0.
BITPOS ones x
-> -ERR value is not an integer or out of range
BITPOS ones 1 0 0 WORD
-> -ERR syntax error
BITPOS ones 1 0 0 BIT extra
-> -ERR syntax error
SET mixed "\x00\xff\xf0"
-> +OK
BITPOS mixed 1
-> :8
BITPOS mixed 0
-> :0
BITPOS mixed 1 0 0
-> :-1
BITPOS mixed 0 1
-> :20
BITPOS mixed 1 2
-> :16
BITPOS mixed 1 7 15 BIT
-> :8
BITPOS mixed 0 8 19 BIT
-> :-1
BITPOS mixed 0 8 20 BIT
-> :20
BITPOS mixed 0 -4 -1 BIT
-> :20
BITPOS mixed 1 -1 -2 BIT
-> :-1
SET empty ""
-> +OK
BITPOS empty 0
-> :-1
BITPOS empty 1
-> :-1
BITFIELD f
-> *0
BITFIELD f GET u8 0 GET i5 100
-> *2 :0 :0
EXISTS f
-> :0
BITFIELD f INCRBY i5 100 1 GET u4 0
-> *2 :1 :0
BITFIELD f SET u8 #1 255 GET u8 #1 GET i8 8 GET u16 0
-> *4 :0 :255 :-1 :255
BITFIELD f SET u8 #1 300
-> *1 :255
BITFIELD f OVERFLOW SAT SET u8 #1 300 INCRBY u8 #1 -300 OVERFLOW FAIL INCRBY u8 #1 -1 SET u8 #1 256 SET i8 #1 -129
-> *5 :44 :0 $-1 $-1 $-1
BITFIELD f OVERFLOW WRAP INCRBY u8 #1 -1 INCRBY i8 #2 127 INCRBY i8 #2 1
-> *3 :255 :127 :-128
BITFIELD f OVERFLOW SAT INCRBY i64 0 9223372036854775807 INCRBY i64 0 9223372036854775807
-> *2 :9223372036854775807 :9223372036854775807
BITFIELD f OVERFLOW WRAP INCRBY i64 0 9223372036854775807
-> *1 :-2
BITFIELD f OVERFLOW FAIL INCRBY i64 0 -9223372036854775807 INCRBY i64 0 -9223372036854775807
-> *2 $-1 $-1
BITFIELD f SET u63 0 9223372036854775807 GET u63 0 GET i64 0
-> *3 :9223372036854775807 :9223372036854775807 :-2
BITFIELD f OVERFLOW SAT SET u8 0 -1 GET u8 0 OVERFLOW FAIL SET u8 0 -1 OVERFLOW WRAP SET u8 0 -2 GET u8 0
-> *5 :255 :255 $-1 :255 :254
BITFIELD f SET u1 200 1
-> *1 :0
STRLEN f
-> :26
GET f
-> $"\xfe\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"
BITFIELD_RO f GET u8 0 GET u8 #2
-> *2 :254 :255
BITFIELD_RO f GET u8 0 SET u8 0 1
-> -ERR BITFIELD_RO only supports the GET subcommand
BITFIELD_RO f
-> *0
BITFIELD f GET u64 0
-> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
BITFIELD f GET i65 0
-> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
BITFIELD f GET i0 0
-> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
BITFIELD f GET x8 0
-> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
BITFIELD f GET u8 -1
-> -ERR bit offset is not an integer or out of range
BITFIELD f GET u8 #-1
-> -ERR bit offset is not an integer or out of range
BITFIELD f GET u8 x
-> -ERR bit offset is not an integer or out of range
BITFIELD f SET u8 0
-> -ERR syntax error
BITFIELD f SET u8 0 x
-> -ERR value is not an integer or out of range
BITFIELD f NOSUCH u8 0
-> -ERR syntax error
BITFIELD f OVERFLOW NEVER
-> -ERR Invalid OVERFLOW type specified
BITFIELD f OVERFLOW
-> -ERR syntax error
BITFIELD
-> -ERR wrong number of arguments for 'bitfield' command
BITFIELD list GET u8 0
-> *1 :0
RPUSH list a
-> :1
BITFIELD list GET u8 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BITFIELD list SET u8 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BITPOS list 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
SET a "\x0f\xf0\x33"
-> +OK
SET b "\xff\x0f"
-> +OK
BITOP AND and a b none
-> :3
GET and
-> $"\x00\x00\x00"
BITOP AND and a b
-> :3
GET and
-> $"\x0f\x00\x00"
BITOP OR or a b
-> :3
GET or
-> $"\xff\xff3"
BITOP XOR xor a b a
-> :3
GET xor
-> $"\xff\x0f\x00"
BITOP NOT not a
-> :3
GET not
-> $"\xf0\x0f\xcc"
BITOP NOT not a b
-> -ERR BITOP NOT must be called with a single source key.
BITOP NAND not a b
-> -ERR syntax error
BITOP AND and none other
-> :0
EXISTS and
-> :0
BITOP NOT not none
-> :0
EXISTS not
-> :0
BITOP OR a a b
-> :3
GET a
-> $"\xff\xff3"
BITOP OR or a list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BITOP OR list a b
-> :3
TYPE list
-> +string
SET ttl x EX 100
-> +OK
BITOP AND ttl a
-> :3
TTL ttl
-> :-1
