# A page has something if there is something.
== three keys
SET a 1
-> +OK
SCAN 0 MATCH a
-> *2 $"0" *1 $"a"
SCAN 0 COUNT 100 TYPE string
-> *2 $"0" *1 $"a"
SCAN 0 COUNT 100 TYPE list
-> *2 $"0" *0
SCAN 0 COUNT 100 TYPE nosuch
-> *2 $"0" *0

== none
SCAN 0
-> *2 $"0" *0
SCAN 0 COUNT 1
-> *2 $"0" *0

== wrong words
SCAN abc
-> -ERR invalid cursor
# No page ends there.
SCAN -1
-> *2 $"0" *0
here -> -ERR invalid cursor
# No page ends there.
SCAN ""
-> *2 $"0" *0
here -> -ERR invalid cursor
SCAN 0 COUNT
-> -ERR syntax error
SCAN 0 COUNT 0
-> -ERR syntax error
SCAN 0 COUNT -1
-> -ERR syntax error
SCAN 0 COUNT abc
-> -ERR value is not an integer or out of range
SCAN 0 MATCH
-> -ERR syntax error
SCAN 0 TYPE
-> -ERR syntax error
SCAN 0 NOSUCH x
-> -ERR syntax error
SCAN 0 0
-> -ERR syntax error
SSCAN s 0
-> *2 $"0" *0
SSCAN s abc
-> -ERR invalid cursor
# Redis does not look at the words if there is no such key.
SSCAN s 0 COUNT 0
-> *2 $"0" *0
here -> -ERR syntax error
# Redis does not look at the words if there is no such key.
SSCAN s 0 COUNT abc
-> *2 $"0" *0
here -> -ERR value is not an integer or out of range
# Redis does not look at the words if there is no such key.
SSCAN s 0 NOSUCH x
-> *2 $"0" *0
here -> -ERR syntax error
HSCAN h 0
-> *2 $"0" *0
HSCAN h x
-> -ERR invalid cursor
ZSCAN z 0
-> *2 $"0" *0
ZSCAN z x
-> -ERR invalid cursor
SET k v
-> +OK
SSCAN k 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HSCAN k 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
ZSCAN k 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
HSCAN k abc
-> -ERR invalid cursor
