# Commands for logs.

== CAPLOG.INIT
# OK: the log was created
CAPLOG.INIT news 2
-> +OK
LOG.APPEND news one two three
-> $"<<1796037007322013-0-2>>"
LOG.LEN news
-> :2

== CAPLOG.INIT fails
CAPLOG.INIT news 2
-> +OK
# The key holds a log with another capacity.
CAPLOG.INIT news 5
-> -ERR the key exists already, with capacity 2
# The capacity is not a positive integer.
CAPLOG.INIT other 0
-> -ERR the capacity must be between 1 and 4294967296

== LOG.APPEND
# string: the id of the last entry
LOG.APPEND news hello bye
-> $"<<1796037007338299-0-1>>"
LOG.LEN news
-> :2

== LOG.LEN
# integer: how many entries; 0 for an absent key
LOG.APPEND news one two
-> $"<<1796037007344018-0-1>>"
LOG.LEN news
-> :2

== LOG.RANGE
# array: for each entry an array of id and value
LOG.APPEND news one two three
-> $"<<1796037007350254-0-2>>"
LOG.RANGE news - + COUNT 2
-> *2 *2 $"<<1796037007350254-0-0>>" $"one" *2 $"<<1796037007350254-0-1>>" $"two"

== LOG.RANGE fails
# An id is not valid.
LOG.RANGE news first last
-> -ERR invalid id; use microseconds-logical-index, - or +

== LOG.TAIL
# array: for each entry an array of id and value
LOG.APPEND news one two three
-> $"<<1796037007362224-0-2>>"
LOG.TAIL news 2
-> *2 *2 $"<<1796037007362224-0-2>>" $"three" *2 $"<<1796037007362224-0-1>>" $"two"

== LOG.TAIL fails
# The number is not an integer.
LOG.TAIL news some
-> -ERR value is not an integer or out of range

== LOG.TRIM
# integer: how many entries were removed
LOG.APPEND news one two three
-> $"<<1796037007372330-0-2>>"
LOG.TRIM news MAXLEN 1
-> :2
LOG.LEN news
-> :1

== LOG.TRIM fails
# The number is negative or not an integer.
LOG.TRIM news MAXLEN -1
-> -ERR value is out of range, must be positive
