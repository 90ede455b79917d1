# Commands for composed types.

== TYPE.CALL
# any: the reply of the operation
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
TYPE.CALL votes tally.add 3
-> +OK
TYPE.CALL votes tally.get
-> :3

== TYPE.CALL fails
# The type does not exist.
TYPE.CALL votes none.add 3
-> -ERR there is no type none: see TYPE.DEFINE and TYPE.LIST
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
# The argument has not the form that the operation declares.
TYPE.CALL votes tally.add many
-> -ERR by is not an integer or out of range
# The type has no such operation.
TYPE.CALL votes tally.sell 3
-> -ERR the type tally has no operation 'sell', only add, get

== TYPE.CALL_RO
# any: the reply of the operation
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
tally.add votes 3
-> +OK
TYPE.CALL_RO votes tally.get
-> :3

== TYPE.CALL_RO fails
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
# The operation writes.
TYPE.CALL_RO votes tally.add 3
-> -ERR Can not execute an operation that writes using *_ro command.

== TYPE.DEFINE
# integer: the version
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
tally.add votes 3
-> +OK
tally.get votes
-> :3

== TYPE.DEFINE fails
# A line of the definition is not understood.
TYPE.DEFINE other "type other\nparts n counter"
-> -ERR line 2: 'parts' is outside of an operation
# The definition names another type.
TYPE.DEFINE other "type tally\npart n counter\nop get\n  return counter.get n"
-> -ERR the definition is of tally, and not of other
# A part has a kind that does not exist.
TYPE.DEFINE other "type other\npart n number\nop get\n  return counter.get n"
-> -ERR line 2: 'number' is no kind of part: these are string, hash, list, set, counter, zset, topk, bag, log

== TYPE.DROP
# integer: 1 if there was a definition, else 0
TYPE.DEFINE passing "type passing\npart n counter\nop get\n  return counter.get n"
-> :<<1>>
TYPE.DROP passing
-> :1
TYPE.DROP passing
-> :0

== TYPE.GET
# string: the definition
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
TYPE.GET tally
-> $"type tally <<1>>\npart n counter\nop add by:int\n counter.add n $by\nop get\n return counter.get n"

== TYPE.GET fails
# The type does not exist.
TYPE.GET none
-> -ERR there is no type none: see TYPE.LIST

== TYPE.LAWS
# array: for each pair of operations when they commute, and why they do not
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
TYPE.LAWS tally
-> *3 *4 $"add" $"add" $"always" $"" *4 $"add" $"get" $"never" $"n: counter.add and counter.get" *4 $"get" $"get" $"always" $""

== TYPE.LAWS fails
# The type does not exist.
TYPE.LAWS none
-> -ERR there is no type none: see TYPE.LIST

== TYPE.LIST
# array: the types
TYPE.DEFINE tally "type tally\npart n counter\nop add by:int\n  counter.add n $by\nop get\n  return counter.get n"
-> :<<1>>
TYPE.LIST
-> *1 *8 $"name" $"tally" $"version" :<<1>> $"parts" *1 $"part n counter" $"operations" *2 $"tally.add key by" $"tally.get key"

== TYPE.MIGRATE
# integer: the version
TYPE.DEFINE till "type till\npart n counter\nop add by:int\n  counter.add n $by"
-> :<<1>>
TYPE.MIGRATE till "type till\npart n counter\npart last string\nop add by:int\n  counter.add n $by\n  set last $by"
-> :<<2>>
till.add shop 3
-> +OK

== TYPE.MIGRATE fails
# The type does not exist.
TYPE.MIGRATE unheard "type unheard\npart n counter\nop get\n  return counter.get n"
-> -ERR there is no type unheard: see TYPE.LIST
TYPE.DEFINE shelf "type shelf\npart n counter\nop add by:int\n  counter.add n $by"
-> :<<1>>
# A part of the old definition is missing, and `without` does not drop it.
TYPE.MIGRATE shelf "type shelf\npart m counter\nop add by:int\n  counter.add m $by"
-> -ERR the part n of shelf <<1>> is missing or of another kind; to drop what values have in it, write 'without n'
