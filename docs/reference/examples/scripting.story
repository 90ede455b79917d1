# Commands for scripts and functions.

== EVAL
# any: what the script returns
SET ann 100
-> +OK
EVAL "local n = redis.call('GET', KEYS[1]); redis.call('INCRBY', KEYS[2], n); return n" 2 ann ben
-> $"100"
GET ben
-> $"100"

== EVAL fails
# The script has a mistake.
EVAL "return redis.call(" 0
-> -ERR Error compiling script (new function): user_script:1: Expected identifier when parsing expression, got <eof>
# A command of the script fails.
EVAL "return redis.call('INCR', KEYS[1], 5)" 1 n
-> -ERR Wrong number of args calling Redis command from script script: c6cf60f0db966ab5443597397134f70e8eb6bc17, on @user_script:1.
# The number of keys is larger than that of the arguments.
EVAL "return 1" 2 a
-> -ERR Number of keys can't be greater than number of args

== EVAL_RO
# any: what the script returns
SET ann 100
-> +OK
EVAL_RO "return redis.call('GET', KEYS[1])" 1 ann
-> $"100"

== EVAL_RO fails
# The script writes.
EVAL_RO "return redis.call('INCR', KEYS[1])" 1 n
-> -ERR Write commands are not allowed from read-only scripts. script: 61636018f4e6b5817b89791bbed242f93fa089e3, on @user_script:1.

== EVALSHA
# any: what the script returns
SCRIPT LOAD "return ARGV[1] * 2"
-> $"96b26102431a126f621a5266b1d35477d6106519"
EVALSHA 96b26102431a126f621a5266b1d35477d6106519 0 21
-> :42

== EVALSHA fails
# No script has this name.
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
-> -NOSCRIPT No matching script. Please use EVAL.

== EVALSHA_RO
# any: what the script returns
SCRIPT LOAD "return ARGV[1] * 2"
-> $"96b26102431a126f621a5266b1d35477d6106519"
EVALSHA_RO 96b26102431a126f621a5266b1d35477d6106519 0 21
-> :42

== EVALSHA_RO fails
# No script has this name.
EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 0
-> -NOSCRIPT No matching script. Please use EVAL.

== FCALL
# any: what the function returns
FUNCTION LOAD REPLACE "#!lua name=shop\nredis.register_function('sell', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)"
-> $"shop"
FCALL sell 1 shoes 3
-> :3

== FCALL fails
# There is no such function.
FCALL none 0
-> -ERR Function not found

== FCALL_RO
# any: what the function returns
FUNCTION LOAD REPLACE "#!lua name=stock\nredis.register_function{function_name='left', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}"
-> $"stock"
SET shoes 7
-> +OK
FCALL_RO left 1 shoes
-> $"7"

== FCALL_RO fails
FUNCTION LOAD REPLACE "#!lua name=shop\nredis.register_function('sell', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)"
-> $"shop"
# The function may write.
FCALL_RO sell 1 shoes 3
-> -ERR Can not execute a script with write flag using *_ro command.

== FUNCTION
# string: of LOAD the name of the library, of DUMP all libraries
# array: of LIST the libraries
# OK: of DELETE, FLUSH and RESTORE
# map: of STATS what runs, and how many libraries and functions there are
FUNCTION LOAD "#!lua name=shop\nredis.register_function('sell', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)"
-> $"shop"
FUNCTION LIST
-> *1 *6 $"library_name" $"shop" $"engine" $"LUA" $"functions" *1 *6 $"name" $"sell" $"description" $-1 $"flags" *0
FUNCTION DELETE shop
-> +OK

== FUNCTION fails
# The first line does not name engine and library.
FUNCTION LOAD "return 1"
-> -ERR Missing library metadata
# There is no such library.
FUNCTION DELETE none
-> -ERR Library not found
# No function runs.
FUNCTION KILL
-> -NOTBUSY No scripts in execution right now: a function that takes too long ends by itself, and nothing waits for it but what needs the same records.

== SCRIPT
# string: of LOAD the name of the script, of SHOW its text
# array: of EXISTS 1 or 0 for each name
# OK: of FLUSH
SCRIPT LOAD "return 1"
-> $"e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db ffffffffffffffffffffffffffffffffffffffff
-> *2 :1 :0
SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
-> $"return 1"

== SCRIPT fails
# The script has a mistake.
SCRIPT LOAD "return redis.call("
-> -ERR Error compiling script (new function): user_script:1: Expected identifier when parsing expression, got <eof>
# No script runs.
SCRIPT KILL
-> -NOTBUSY No scripts in execution right now: a script that takes too long ends by itself, and nothing waits for it but what needs the same records.
