# Commands for unique identifiers.

== UID.ISSUED
# integer: how many; 0 for an absent key
UID.NEXT orders COUNT 3
-> *3 $"<<362z3ktmb5200-0>>" $"<<362z3ktmb5200-1>>" $"<<362z3ktmb5200-2>>"
UID.ISSUED orders
-> :3

== UID.NEXT
# string: the identifier, without COUNT
# array: the identifiers, with COUNT
UID.NEXT orders
-> $"<<362z3ktmr5r00-0>>"
UID.NEXT orders COUNT 2
-> *2 $"<<362z3ktmznt00-0>>" $"<<362z3ktmznt00-1>>"

== UID.NEXT fails
# COUNT is not a positive integer, or is too large.
UID.NEXT orders COUNT 0
-> -ERR COUNT must be between 1 and 10000
