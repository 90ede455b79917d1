# Expiry at its edges.
== moments far away
SET k v
-> +OK
PEXPIREAT k 9223372036854770000
-> :1
PEXPIRETIME k
-> :9223372036854770000
EXPIRETIME k
-> :9223372036854770
PEXPIREAT k 9223372036854775807
-> :1
PEXPIRETIME k
-> :9223372036854775807
EXPIREAT k 9223372036854775
-> :1
PEXPIRETIME k
-> :9223372036854775000
EXPIRETIME k
-> :9223372036854775
GET k
-> $"v"

== moments too far away
SET k v
-> +OK
EXPIREAT k 9223372036854776
-> -ERR invalid expire time in 'expireat' command
EXPIRE k 9223372036854776
-> -ERR invalid expire time in 'expire' command
EXPIRE k 9223372036854775807
-> -ERR invalid expire time in 'expire' command
EXPIRE k 9223372036854775
-> -ERR invalid expire time in 'expire' command
PEXPIRE k 9223372036854775807
-> -ERR invalid expire time in 'pexpire' command
EXPIRE k -9223372036854775808
-> -ERR invalid expire time in 'expire' command
PEXPIREAT k 9223372036854775808
-> -ERR value is not an integer or out of range
EXPIRE k 1.5
-> -ERR value is not an integer or out of range
EXPIRE k ""
-> -ERR value is not an integer or out of range
EXPIRE k abc
-> -ERR value is not an integer or out of range
TTL k
-> :-1
GET k
-> $"v"

== moments in the past
SET k v
-> +OK
EXPIRE k -1
-> :1
EXISTS k
-> :0
SET k v
-> +OK
PEXPIREAT k -9223372036854775808
-> :1
EXISTS k
-> :0
SET k v
-> +OK
EXPIREAT k 0
-> :1
EXISTS k
-> :0
SET k v
-> +OK
PEXPIREAT k 1
-> :1
EXISTS k
-> :0
SET k v
-> +OK
EXPIRE k 0
-> :1
EXISTS k
-> :0

== options
SET k v
-> +OK
EXPIRE k 100 NX GT
-> -ERR NX and XX, GT or LT options at the same time are not compatible
EXPIRE k 100 NX XX
-> -ERR NX and XX, GT or LT options at the same time are not compatible
EXPIRE k 100 GT LT
-> -ERR GT and LT options at the same time are not compatible
EXPIRE k 100 NOSUCH
-> -ERR Unsupported option NOSUCH
EXPIRE k abc NOSUCH
-> -ERR Unsupported option NOSUCH
EXPIRE k 100 XX
-> :0
EXPIRE k 100 GT
-> :0
EXPIRE k 100 LT
-> :1
EXPIRE k 200 GT
-> :1
EXPIRE k 300 XX GT
-> :1
EXPIRE k 100 XX LT
-> :1
EXPIRE k 200 NX
-> :0
EXPIRE nosuch 100
-> :0
EXPIRE k -1 GT
-> :0
TTL k
-> :100

== set with an expiry
SET k v EX 0
-> -ERR invalid expire time in 'set' command
SET k v EX -1
-> -ERR invalid expire time in 'set' command
SET k v PX 0
-> -ERR invalid expire time in 'set' command
SET k v EXAT 0
-> -ERR invalid expire time in 'set' command
SET k v PXAT -5
-> -ERR invalid expire time in 'set' command
SET k v EX 9223372036854775807
-> -ERR invalid expire time in 'set' command
SET k v EX 9223372036854776
-> -ERR invalid expire time in 'set' command
SET k v EX 9223372036854775
-> -ERR invalid expire time in 'set' command
SET k v PX 9223372036854775807
-> -ERR invalid expire time in 'set' command
SET k v EX abc
-> -ERR value is not an integer or out of range
SET k v EX 1.5
-> -ERR value is not an integer or out of range
SET k v EX
-> -ERR syntax error
SET k v EX 10 PX 10
-> -ERR syntax error
SET k v EX 10 KEEPTTL
-> -ERR syntax error
SET k v NX XX
-> -ERR syntax error
SET k v NX GET
-> $-1
SET k v XX GET
-> $"v"
SET k v PXAT 9223372036854775807
-> +OK
PEXPIRETIME k
-> :9223372036854775807
SET k v EXAT 9223372036854775
-> +OK
PEXPIRETIME k
-> :9223372036854775000
SET k v KEEPTTL
-> +OK
PEXPIRETIME k
-> :9223372036854775000
SET k v PXAT 1
-> +OK
EXISTS k
-> :0
SETEX k 0 v
-> -ERR invalid expire time in 'setex' command
SETEX k -1 v
-> -ERR invalid expire time in 'setex' command
SETEX k abc v
-> -ERR value is not an integer or out of range
SETEX k 9223372036854775807 v
-> -ERR invalid expire time in 'setex' command
PSETEX k 0 v
-> -ERR invalid expire time in 'psetex' command
PSETEX k 9223372036854775807 v
-> -ERR invalid expire time in 'psetex' command
EXISTS k
-> :0

== getex
GETEX k EX 10
-> $-1
SET k v
-> +OK
GETEX k EX 0
-> -ERR invalid expire time in 'getex' command
GETEX k PX -1
-> -ERR invalid expire time in 'getex' command
GETEX k EX 9223372036854776
-> -ERR invalid expire time in 'getex' command
GETEX k EX abc
-> -ERR value is not an integer or out of range
GETEX k PERSIST EX 10
-> -ERR syntax error
GETEX k EX 10 PERSIST
-> -ERR syntax error
GETEX k NOSUCH
-> -ERR syntax error
GETEX k EX
-> -ERR syntax error
GETEX k PXAT 9223372036854775807
-> $"v"
PEXPIRETIME k
-> :9223372036854775807
GETEX k PERSIST
-> $"v"
TTL k
-> :-1
GETEX k EXAT 1
-> $"v"
EXISTS k
-> :0

== what is left
TTL nosuch
-> :-2
PTTL nosuch
-> :-2
EXPIRETIME nosuch
-> :-2
PEXPIRETIME nosuch
-> :-2
SET k v
-> +OK
TTL k
-> :-1
PTTL k
-> :-1
EXPIRETIME k
-> :-1
PEXPIRETIME k
-> :-1
EXPIREAT k 33177117420
-> :1
EXPIRETIME k
-> :33177117420
PEXPIRETIME k
-> :33177117420000
PEXPIREAT k 33177117420500
-> :1
EXPIRETIME k
-> :33177117421
PEXPIREAT k 33177117420499
-> :1
EXPIRETIME k
-> :33177117420
PERSIST k
-> :1
PERSIST k
-> :0
PERSIST nosuch
-> :0
