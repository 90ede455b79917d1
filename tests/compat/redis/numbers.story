# Integers and decimal numbers at their edges.
== integers
SET k 9223372036854775807
-> +OK
INCR k
-> -ERR increment or decrement would overflow
INCRBY k 1
-> -ERR increment or decrement would overflow
DECRBY k -1
-> -ERR increment or decrement would overflow
DECRBY k -9223372036854775808
-> -ERR decrement would overflow
SET k -9223372036854775808
-> +OK
DECR k
-> -ERR increment or decrement would overflow
DECRBY k 1
-> -ERR increment or decrement would overflow
INCRBY k -1
-> -ERR increment or decrement would overflow
INCRBY k 9223372036854775807
-> :-1
SET k " 1"
-> +OK
INCR k
-> -ERR value is not an integer or out of range
SET k 01
-> +OK
INCR k
-> -ERR value is not an integer or out of range
SET k 1.5
-> +OK
INCR k
-> -ERR value is not an integer or out of range
SET k ""
-> +OK
INCR k
-> -ERR value is not an integer or out of range
INCRBY k 1.5
-> -ERR value is not an integer or out of range
INCRBY k abc
-> -ERR value is not an integer or out of range
INCRBY k ""
-> -ERR value is not an integer or out of range
INCRBY k +5
-> -ERR value is not an integer or out of range
SADD s a
-> :1
INCR s
-> -WRONGTYPE Operation against a key holding the wrong kind of value
INCRBYFLOAT s 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value

== decimal numbers
SET k 10.50
-> +OK
INCRBYFLOAT k 0.1
-> $"10.6"
INCRBYFLOAT k -5
-> $"5.6"
SET k 5.0e3
-> +OK
INCRBYFLOAT k 2.0e2
-> $"5200"
SET k 0
-> +OK
INCRBYFLOAT k 1.0
-> $"1"
INCRBYFLOAT k 0.5
-> $"1.5"
INCRBYFLOAT k -1.5
-> $"0"
INCRBYFLOAT k 1e-18
-> $"0"
SET k 0.1
-> +OK
INCRBYFLOAT k 0.2
-> $"0.3"
SET k 3
-> +OK
INCRBYFLOAT k 1.25
-> $"4.25"
GET k
-> $"4.25"

== beyond 2 to the power of 53
SET k 1
-> +OK
INCRBYFLOAT k 9007199254740993
-> $"9007199254740994"
INCRBYFLOAT k 1
-> $"9007199254740995"
INCRBYFLOAT k -9007199254740993
-> $"2"
SET k 9007199254740993
-> +OK
INCRBYFLOAT k 0
-> $"9007199254740993"
SET k 9223372036854775807
-> +OK
INCRBYFLOAT k 1
-> $"9223372036854775808"
INCRBYFLOAT k -1
-> $"9223372036854775807"
SET k -9223372036854775808
-> +OK
INCRBYFLOAT k -1
-> $"-9223372036854775809"
DEL h
-> :0
HSET h f 1
-> :1
HINCRBYFLOAT h f 9007199254740993
-> $"9007199254740994"
HINCRBYFLOAT h g 9007199254740995
-> $"9007199254740995"

== what is no number
SET k abc
-> +OK
INCRBYFLOAT k 1
-> -ERR value is not a valid float
SET k 1
-> +OK
INCRBYFLOAT k abc
-> -ERR value is not a valid float
INCRBYFLOAT k nan
-> -ERR value is not a valid float
INCRBYFLOAT k inf
-> -ERR increment would produce NaN or Infinity
INCRBYFLOAT k -inf
-> -ERR increment would produce NaN or Infinity
INCRBYFLOAT k " 1"
-> -ERR value is not a valid float
INCRBYFLOAT k "1 "
-> -ERR value is not a valid float
INCRBYFLOAT k ""
-> -ERR value is not a valid float
INCRBYFLOAT k +1
-> $"2"
INCRBYFLOAT k .5
-> $"2.5"
INCRBYFLOAT k 1.
-> $"3.5"
SET k " 1"
-> +OK
INCRBYFLOAT k 1
-> -ERR value is not a valid float
SET k "1 "
-> +OK
INCRBYFLOAT k 1
-> -ERR value is not a valid float
SET k ""
-> +OK
INCRBYFLOAT k 1
-> -ERR value is not a valid float
SET k inf
-> +OK
INCRBYFLOAT k 1
-> -ERR increment would produce NaN or Infinity
GET k
-> $"inf"

== decimal fields
HSET h f abc i 1.5
-> :2
HINCRBYFLOAT h f 1
-> -ERR hash value is not a float
HINCRBYFLOAT h i abc
-> -ERR value is not a valid float
HINCRBYFLOAT h i inf
-> -ERR value is NaN or Infinity
HINCRBYFLOAT h i nan
-> -ERR value is not a valid float
HINCRBYFLOAT h i 0.1
-> $"1.6"
HINCRBYFLOAT h new -0.5
-> $"-0.5"
HINCRBY h i 1
-> -ERR hash value is not an integer
HINCRBY h f 1
-> -ERR hash value is not an integer
HSET h big 9223372036854775807
-> :1
HINCRBY h big 1
-> -ERR increment or decrement would overflow
HINCRBY h big -1
-> :9223372036854775806
HINCRBY h big abc
-> -ERR value is not an integer or out of range
HGETALL h
-> *8 $"f" $"abc" $"i" $"1.6" $"new" $"-0.5" $"big" $"9223372036854775806"

# 7.2 writes a score with as few digits as read back as the same number.
== scores
ZADD z 1e17 a
-> :1
ZADD z 1e300 b
-> :1
ZADD z 0.1 c
-> :1
ZADD z 3.0 d
-> :1
ZADD z inf e
-> :1
ZADD z -inf f
-> :1
ZADD z -0 g
-> :1
ZADD z 1e-7 h
-> :1
ZADD z 123456789012345680000 i
-> :1
ZADD z 17179869184.5 j
-> :1
ZADD z 1.7976931348623157e308 k
-> :1
ZADD z 5e-324 l
-> :1
ZADD z 9007199254740993 m
-> :1
ZADD z 0x10 n
-> :1
ZSCORE z a
-> $"1e+17"
ZSCORE z b
-> $"1.0000000000000001e+300"
7.2 -> $"1e+300"
ZSCORE z c
-> $"0.10000000000000001"
7.2 -> $"0.1"
ZSCORE z d
-> $"3"
ZSCORE z e
-> $"inf"
ZSCORE z f
-> $"-inf"
ZSCORE z g
-> $"0"
ZSCORE z h
-> $"9.9999999999999995e-08"
7.2 -> $"1e-7"
ZSCORE z i
-> $"1.2345678901234568e+20"
7.2 -> $"123456789012345680000"
ZSCORE z j
-> $"17179869184.5"
ZSCORE z k
-> $"1.7976931348623157e+308"
ZSCORE z m
-> $"9007199254740992"
ZINCRBY z inf a
-> $"inf"
ZINCRBY z -inf a
-> -ERR resulting score is not a number (NaN)
ZINCRBY z nan b
-> -ERR value is not a valid float
ZINCRBY z abc b
-> -ERR value is not a valid float
ZINCRBY z 1 d
-> $"4"
ZINCRBY z 1.5 d
-> $"5.5"
ZADD z nan x
-> -ERR value is not a valid float
ZADD z abc x
-> -ERR value is not a valid float
ZADD z "" x
-> -ERR value is not a valid float
ZADD z " 1" x
-> -ERR value is not a valid float
ZADD z +inf x
-> :1
ZADD z INF x
-> :0
ZADD z infinity x
-> :0
ZADD z INCR inf x
-> $"inf"
ZADD z INCR -inf x
-> -ERR resulting score is not a number (NaN)
ZSCORE z x
-> $"inf"
