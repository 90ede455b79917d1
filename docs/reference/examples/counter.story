# Commands for counters: numbers that many clients change without waiting for each other.

== COUNTER.ADD
# OK: the number was added
COUNTER.ADD likes 3
-> +OK
COUNTER.ADD likes -1
-> +OK
COUNTER.GET likes
-> :2

== COUNTER.ADD fails
# The number is not an integer of 64 bits.
COUNTER.ADD likes 1.5
-> -ERR value is not an integer or out of range
COUNTER.SET seats 10 MIN 0
-> +OK
# The counter has bounds, which only COUNTER.TRY keeps without waiting.
COUNTER.ADD seats 1
-> -ERR use COUNTER.TRY on a bounded counter

== COUNTER.ATLEAST
# integer: 1 if it is, else 0
COUNTER.SET seats 10
-> +OK
COUNTER.ATLEAST seats 10
-> :1
COUNTER.ATLEAST seats 11
-> :0

== COUNTER.ATLEAST fails
# The number is not an integer of 64 bits.
COUNTER.ATLEAST seats many
-> -ERR value is not an integer or out of range

== COUNTER.BOUNDS
# array: the lowest and the highest value; nil for a bound that is absent
COUNTER.SET seats 10 MIN 0
-> +OK
COUNTER.BOUNDS seats
-> *2 :0 $-1

== COUNTER.GET
# integer: the value; 0 for an absent key
COUNTER.ADD likes 3
-> +OK
COUNTER.GET likes
-> :3
COUNTER.GET none
-> :0

== COUNTER.INCR
# integer: the new value
COUNTER.SET likes 10
-> +OK
COUNTER.INCR likes 5
-> :15

== COUNTER.INCR fails
COUNTER.SET seats 1 MIN 0
-> +OK
# The result would be outside of the bounds.
COUNTER.INCR seats -5
-> -ERR the counter would leave its bounds

== COUNTER.SET
# OK: the value was set
COUNTER.SET seats 10 MIN 0 MAX 10
-> +OK
COUNTER.TRY seats -3
-> :1
COUNTER.GET seats
-> :7

== COUNTER.SET fails
# The value is outside of the bounds.
COUNTER.SET seats 11 MAX 10
-> -ERR the value must lie within MIN and MAX
# The number is not an integer of 64 bits.
COUNTER.SET seats many
-> -ERR value is not an integer or out of range

== COUNTER.TRY
# integer: 1 if the number was added; 0 if the sum would be outside of the bounds
COUNTER.SET seats 2 MIN 0
-> +OK
COUNTER.TRY seats -1
-> :1
COUNTER.TRY seats -5
-> :0
COUNTER.GET seats
-> :1

== COUNTER.TRY fails
# The number is not an integer of 64 bits.
COUNTER.TRY seats many
-> -ERR value is not an integer or out of range
