# Hash commands.

== HDEL
# integer: how many of the fields were there
HSET ann mail a@x.org city Paris
-> :2
HDEL ann city street
-> :1
HKEYS ann
-> *1 $"mail"

== HEXISTS
# integer: 1 if the field exists, else 0
HSET ann city Paris
-> :1
HEXISTS ann city
-> :1
HEXISTS ann street
-> :0

== HEXPIRE
# array: for each field 1 if the time was set, 0 if the condition did not hold, 2 if the field was removed because the time is past, -2 if there is no such field
HSET cart apples 3 pears 2
-> :2
HEXPIRE cart 60 FIELDS 2 apples plums
-> *2 :1 :-2
HTTL cart FIELDS 2 apples pears
-> *2 :60 :-1

== HEXPIRE fails
# The number of fields is not that of the names.
HEXPIRE cart 60 FIELDS 2 apples
-> -ERR The `numfields` parameter must match the number of arguments
# The time is not an integer.
HEXPIRE cart soon FIELDS 1 apples
-> -ERR value is not an integer or out of range
# The time is negative.
HEXPIRE cart -1 FIELDS 1 apples
-> -ERR invalid expire time, must be >= 0

== HEXPIREAT
# array: for each field 1 if the time was set, 0 if the condition did not hold, 2 if the field was removed because the time is past, -2 if there is no such field
HSET cart apples 3 pears 2
-> :2
HEXPIREAT cart 4102444800 FIELDS 1 apples
-> *1 :1
HEXPIREAT cart 1 FIELDS 1 pears
-> *1 :2
HKEYS cart
-> *1 $"apples"

== HEXPIREAT fails
# The number of fields is not that of the names.
HEXPIREAT cart 4102444800 FIELDS 2 apples
-> -ERR The `numfields` parameter must match the number of arguments

== HEXPIRETIME
# array: for each field the time in seconds since 1970, -1 if it does not expire, -2 if there is no such field
HSET cart apples 3 pears 2
-> :2
HEXPIREAT cart 4102444800 FIELDS 1 apples
-> *1 :1
HEXPIRETIME cart FIELDS 3 apples pears plums
-> *3 :4102444800 :-1 :-2

== HGET
# string: the value of the field
# nil: there is no such field
HSET ann city Paris
-> :1
HGET ann city
-> $"Paris"
HGET ann street
-> $-1

== HGETALL
# map: the fields with their values; empty for an absent key
HSET ann mail a@x.org city Paris
-> :2
HGETALL ann
-> *4 $"mail" $"a@x.org" $"city" $"Paris"
HGETALL none
-> *0

== HGETDEL
# array: the value of each field; nil where there was none
HSET cart apples 3 pears 2
-> :2
HGETDEL cart FIELDS 2 apples plums
-> *2 $"3" $-1
HKEYS cart
-> *1 $"pears"

== HGETDEL fails
# The number of fields is not that of the names.
HGETDEL cart FIELDS 2 apples
-> -ERR The `numfields` parameter must match the number of arguments

== HGETEX
# array: the value of each field; nil where there is none
HSET cart apples 3 pears 2
-> :2
HGETEX cart EX 60 FIELDS 2 apples plums
-> *2 $"3" $-1
HTTL cart FIELDS 2 apples pears
-> *2 :60 :-1

== HGETEX fails
# The number of fields is not that of the names.
HGETEX cart EX 60 FIELDS 2 apples
-> -ERR The `numfields` parameter must match the number of arguments
# The time is negative.
HGETEX cart EX -1 FIELDS 1 apples
-> -ERR invalid expire time, must be >= 0

== HINCRBY
# integer: the new value
HSET cart apples 3
-> :1
HINCRBY cart apples 2
-> :5
HINCRBY cart pears 1
-> :1

== HINCRBY fails
HSET cart note text
-> :1
# The value is not an integer of 64 bits.
HINCRBY cart note 1
-> -ERR hash value is not an integer
# The increment is not an integer of 64 bits.
HINCRBY cart apples 1.5
-> -ERR value is not an integer or out of range
HSET cart high 9223372036854775807
-> :1
# The result would not be an integer of 64 bits.
HINCRBY cart high 1
-> -ERR increment or decrement would overflow

== HINCRBYFLOAT
# string: the new value
HSET bill total 10.50
-> :1
HINCRBYFLOAT bill total 0.25
-> $"10.75"

== HINCRBYFLOAT fails
HSET bill note text
-> :1
# The value is not a number.
HINCRBYFLOAT bill note 1
-> -ERR hash value is not a float
# The increment is not a number.
HINCRBYFLOAT bill total much
-> -ERR value is not a valid float

== HKEYS
# array: the fields; empty for an absent key
HSET ann mail a@x.org city Paris
-> :2
HKEYS ann
-> *2 $"mail" $"city"

== HLEN
# integer: how many fields the hash has; 0 for an absent key
HSET ann mail a@x.org city Paris
-> :2
HLEN ann
-> :2

== HMGET
# array: the value of each field; nil where there is none
HSET ann mail a@x.org city Paris
-> :2
HMGET ann city street
-> *2 $"Paris" $-1

== HMSET
# OK: the value was set
HMSET ann mail a@x.org city Paris
-> +OK
HGET ann city
-> $"Paris"

== HPERSIST
# array: for each field 1 if its expiry was removed, -1 if it had none, -2 if there is no such field
HSET cart apples 3 pears 2
-> :2
HEXPIRE cart 60 FIELDS 1 apples
-> *1 :1
HPERSIST cart FIELDS 3 apples pears plums
-> *3 :1 :-1 :-2

== HPEXPIRE
# array: for each field 1 if the time was set, 0 if the condition did not hold, 2 if the field was removed because the time is past, -2 if there is no such field
HSET cart apples 3
-> :1
HPEXPIRE cart 60000 FIELDS 1 apples
-> *1 :1
HPEXPIRE cart 90000 NX FIELDS 1 apples
-> *1 :0

== HPEXPIRE fails
# The number of fields is not that of the names.
HPEXPIRE cart 60000 FIELDS 2 apples
-> -ERR The `numfields` parameter must match the number of arguments

== HPEXPIREAT
# array: for each field 1 if the time was set, 0 if the condition did not hold, 2 if the field was removed because the time is past, -2 if there is no such field
HSET cart apples 3
-> :1
HPEXPIREAT cart 4102444800000 FIELDS 1 apples
-> *1 :1
HEXPIRETIME cart FIELDS 1 apples
-> *1 :4102444800

== HPEXPIREAT fails
# The number of fields is not that of the names.
HPEXPIREAT cart 4102444800000 FIELDS 2 apples
-> -ERR The `numfields` parameter must match the number of arguments

== HPEXPIRETIME
# array: for each field the time in milliseconds since 1970, -1 if it does not expire, -2 if there is no such field
HSET cart apples 3
-> :1
HEXPIREAT cart 4102444800 FIELDS 1 apples
-> *1 :1
HPEXPIRETIME cart FIELDS 2 apples plums
-> *2 :4102444800000 :-2

== HPTTL
# array: for each field the milliseconds, -1 if it does not expire, -2 if there is no such field
HSET cart apples 3 pears 2
-> :2
HEXPIRE cart 60 FIELDS 1 apples
-> *1 :1
HPTTL cart FIELDS 2 apples pears
-> *2 :<<59998>> :-1

== HRANDFIELD
# string: a field, without a number
# nil: the key does not exist, without a number
# array: with a number: different fields, or with a negative one as many as it says, which may repeat; with WITHVALUES each with its value
HSET ann city Paris
-> :1
HRANDFIELD ann
-> $"city"
HRANDFIELD ann 5 WITHVALUES
-> *2 $"city" $"Paris"
HRANDFIELD none
-> $-1

== HSCAN
# array: the cursor for the next call, 0 at the end; and the fields with their values, or without them with NOVALUES
HSET ann mail a@x.org city Paris
-> :2
HSCAN ann 0
-> *2 $"0" *4 $"city" $"Paris" $"mail" $"a@x.org"
HSCAN ann 0 MATCH c* NOVALUES
-> *2 $"0" *1 $"city"

== HSCAN fails
# The cursor is not a number.
HSCAN ann x
-> -ERR invalid cursor
# COUNT is not positive.
HSCAN ann 0 COUNT 0
-> -ERR syntax error

== HSET
# integer: how many of the fields are new
HSET ann mail a@x.org city Paris
-> :2
HSET ann city Rome street Via
-> :1
HGETALL ann
-> *6 $"mail" $"a@x.org" $"city" $"Rome" $"street" $"Via"

== HSETEX
# integer: 1 if the fields were set, else 0
HSETEX cart EX 60 FIELDS 2 apples 3 pears 2
-> :1
HSETEX cart FNX FIELDS 1 apples 5
-> :0
HTTL cart FIELDS 1 apples
-> *1 :60

== HSETEX fails
# The number of fields is not that of the names and values.
HSETEX cart EX 60 FIELDS 2 apples 3
-> -ERR wrong number of arguments for 'hsetex' command
# The time is negative.
HSETEX cart EX -1 FIELDS 1 apples 3
-> -ERR invalid expire time, must be >= 0

== HSETNX
# integer: 1 if the field was set; 0 if it existed
HSETNX ann city Paris
-> :1
HSETNX ann city Rome
-> :0
HGET ann city
-> $"Paris"

== HSTRLEN
# integer: the length in bytes; 0 if there is no such field
HSET ann city Paris
-> :1
HSTRLEN ann city
-> :5

== HTTL
# array: for each field the seconds, -1 if it does not expire, -2 if there is no such field
HSET cart apples 3 pears 2
-> :2
HEXPIRE cart 60 FIELDS 1 apples
-> *1 :1
HTTL cart FIELDS 3 apples pears plums
-> *3 :60 :-1 :-2

== HVALS
# array: the values; empty for an absent key
HSET ann mail a@x.org city Paris
-> :2
HVALS ann
-> *2 $"a@x.org" $"Paris"
