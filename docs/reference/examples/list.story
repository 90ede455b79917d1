# List commands.

== BLMOVE
# string: the element that was moved
# nil: the time was over
ann: BLMOVE jobs taken LEFT RIGHT 0
-> ...
ben: RPUSH jobs clean
-> :1
ann <- $"clean"
ann: LRANGE taken 0 -1
-> *1 $"clean"

== BLMOVE fails
# The time-out is negative.
BLMOVE jobs taken LEFT RIGHT -1
-> -ERR timeout is negative

== BLMPOP
# array: the key, and the elements
# nil: the time was over
RPUSH jobs clean cook wash
-> :3
BLMPOP 5 2 urgent jobs LEFT COUNT 2
-> *2 $"jobs" *2 $"clean" $"cook"
BLMPOP 0.01 2 urgent none LEFT
-> *-1

== BLMPOP fails
# The number of keys is not a positive integer.
BLMPOP 5 0 jobs LEFT
-> -ERR numkeys should be greater than 0
# The time-out is negative.
BLMPOP -1 1 jobs LEFT
-> -ERR timeout is negative
# COUNT is not positive.
BLMPOP 5 1 jobs LEFT COUNT 0
-> -ERR count should be greater than 0

== BLPOP
# array: the key, and the element
# nil: the time was over
ann: BLPOP jobs 0
-> ...
ben: RPUSH jobs clean
-> :1
ann <- *2 $"jobs" $"clean"

== BLPOP fails
# The time-out is not a number.
BLPOP jobs soon
-> -ERR timeout is not a float or out of range
# The time-out is negative.
BLPOP jobs -1
-> -ERR timeout is negative

== BRPOP
# array: the key, and the element
# nil: the time was over
RPUSH jobs clean cook
-> :2
BRPOP urgent jobs 5
-> *2 $"jobs" $"cook"
BRPOP urgent 0.01
-> *-1

== BRPOP fails
# The time-out is negative.
BRPOP jobs -1
-> -ERR timeout is negative

== BRPOPLPUSH
# string: the element that was moved
# nil: the time was over
RPUSH jobs clean cook
-> :2
BRPOPLPUSH jobs taken 5
-> $"cook"
LRANGE taken 0 -1
-> *1 $"cook"

== BRPOPLPUSH fails
# The time-out is negative.
BRPOPLPUSH jobs taken -1
-> -ERR timeout is negative

== LINDEX
# string: the element
# nil: there is none at the position
RPUSH jobs clean cook wash
-> :3
LINDEX jobs 0
-> $"clean"
LINDEX jobs -1
-> $"wash"
LINDEX jobs 9
-> $-1

== LINDEX fails
# The position is not an integer.
LINDEX jobs first
-> -ERR value is not an integer or out of range

== LINSERT
# integer: the new length; -1 if the pivot is not in the list; 0 if the key does not exist
RPUSH jobs clean wash
-> :2
LINSERT jobs BEFORE wash cook
-> :3
LRANGE jobs 0 -1
-> *3 $"clean" $"cook" $"wash"

== LINSERT fails
# Neither BEFORE nor AFTER.
LINSERT jobs BESIDE wash cook
-> -ERR syntax error

== LLEN
# integer: the length; 0 for an absent key
RPUSH jobs clean cook
-> :2
LLEN jobs
-> :2

== LMOVE
# string: the element that was moved
# nil: the source does not exist
RPUSH jobs clean cook
-> :2
LMOVE jobs taken LEFT RIGHT
-> $"clean"
LRANGE taken 0 -1
-> *1 $"clean"

== LMOVE fails
# An end is LEFT or RIGHT.
LMOVE jobs taken LEFT TOP
-> -ERR syntax error

== LMPOP
# array: the key, and the elements
# nil: all lists are empty
RPUSH jobs clean cook wash
-> :3
LMPOP 2 urgent jobs LEFT COUNT 2
-> *2 $"jobs" *2 $"clean" $"cook"
LMPOP 1 urgent LEFT
-> *-1

== LMPOP fails
# The number of keys is not a positive integer.
LMPOP 0 jobs LEFT
-> -ERR numkeys should be greater than 0
# COUNT is not positive.
LMPOP 1 jobs LEFT COUNT 0
-> -ERR count should be greater than 0

== LPOP
# string: the element, without a number
# array: the elements, with a number
# nil: the key does not exist
RPUSH jobs clean cook wash
-> :3
LPOP jobs
-> $"clean"
LPOP jobs 5
-> *2 $"cook" $"wash"
LPOP jobs
-> $-1

== LPOP fails
# The number is negative or not an integer.
LPOP jobs -1
-> -ERR value is out of range, must be positive

== LPOS
# integer: the position, without COUNT
# nil: there is no such element, without COUNT
# array: the positions, with COUNT
RPUSH l a b c a
-> :4
LPOS l a
-> :0
LPOS l a RANK -1
-> :3
LPOS l a COUNT 0
-> *2 :0 :3
LPOS l x
-> $-1

== LPOS fails
# A rank counts from 1, or from -1 at the end.
LPOS l a RANK 0
-> -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
# COUNT is negative.
LPOS l a COUNT -1
-> -ERR COUNT can't be negative
# MAXLEN is negative.
LPOS l a MAXLEN -1
-> -ERR MAXLEN can't be negative

== LPUSH
# integer: the new length
LPUSH jobs clean
-> :1
LPUSH jobs cook wash
-> :3
LRANGE jobs 0 -1
-> *3 $"wash" $"cook" $"clean"

== LPUSHX
# integer: the new length; 0 if the key does not exist
LPUSHX jobs clean
-> :0
LPUSH jobs cook
-> :1
LPUSHX jobs clean
-> :2

== LRANGE
# array: the elements; the last position is included, and negative ones count from the end
RPUSH jobs clean cook wash
-> :3
LRANGE jobs 0 1
-> *2 $"clean" $"cook"
LRANGE jobs -2 -1
-> *2 $"cook" $"wash"

== LRANGE fails
# A position is not an integer.
LRANGE jobs 0 last
-> -ERR value is not an integer or out of range

== LREM
# integer: how many elements were removed
RPUSH l a b a c a
-> :5
LREM l 2 a
-> :2
LRANGE l 0 -1
-> *3 $"b" $"c" $"a"

== LREM fails
# The number is not an integer.
LREM l all a
-> -ERR value is not an integer or out of range

== LSET
# OK: the element was replaced
RPUSH jobs clean cook
-> :2
LSET jobs 0 wash
-> +OK
LRANGE jobs 0 -1
-> *2 $"wash" $"cook"

== LSET fails
# The key does not exist.
LSET jobs 0 wash
-> -ERR no such key
RPUSH jobs clean
-> :1
# The list has no such position.
LSET jobs 5 wash
-> -ERR index out of range

== LTRIM
# OK: the list was shortened
RPUSH log a b c d
-> :4
LTRIM log -2 -1
-> +OK
LRANGE log 0 -1
-> *2 $"c" $"d"

== LTRIM fails
# A position is not an integer.
LTRIM log 0 last
-> -ERR value is not an integer or out of range

== RPOP
# string: the element, without a number
# array: the elements, with a number
# nil: the key does not exist
RPUSH jobs clean cook wash
-> :3
RPOP jobs
-> $"wash"
RPOP jobs 5
-> *2 $"cook" $"clean"

== RPOP fails
# The number is negative or not an integer.
RPOP jobs -1
-> -ERR value is out of range, must be positive

== RPOPLPUSH
# string: the element that was moved
# nil: the source does not exist
RPUSH jobs clean cook
-> :2
RPOPLPUSH jobs taken
-> $"cook"
LRANGE taken 0 -1
-> *1 $"cook"

== RPUSH
# integer: the new length
RPUSH jobs clean
-> :1
RPUSH jobs cook wash
-> :3
LRANGE jobs 0 -1
-> *3 $"clean" $"cook" $"wash"

== RPUSHX
# integer: the new length; 0 if the key does not exist
RPUSHX jobs clean
-> :0
RPUSH jobs cook
-> :1
RPUSHX jobs clean
-> :2
