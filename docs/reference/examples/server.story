# Server commands.

== ACL
# any: of GETUSER a map, of LIST, CAT and USERS arrays, of WHOAMI and GENPASS strings, of SETUSER `OK`
ACL SETUSER clerk on >secret ~shop:* +@read
-> +OK
ACL DRYRUN clerk SET shop:1 x
-> $"User clerk has no permissions to run the 'set' command"
ACL DELUSER clerk
-> :1
ACL WHOAMI
-> $"default"

== ACL fails
# The category of a rule does not exist.
ACL SETUSER clerk +@unheard
-> -ERR Error in ACL SETUSER modifier '+@unheard': unknown category; known are <<all, admin, dangerous, ...>>
# The default user cannot be removed.
ACL DELUSER default
-> -ERR The 'default' user cannot be removed
# There is no such category.
ACL CAT unheard
-> -ERR Unknown category 'unheard'

== BGSAVE
# simple: the snapshot was begun
BGSAVE
-> +Background saving started

== COMMAND
# any: of COUNT an integer, of LIST and GETKEYS arrays, of DOCS a map, without a subcommand an array of all commands
COMMAND GETKEYS MSET a 1 b 2
-> *2 $"a" $"b"
COMMAND LIST FILTERBY PATTERN get*
-> *6 $"get" $"getbit" $"getdel" $"getex" $"getrange" $"getset"

== COMMAND fails
# There is no such command.
COMMAND GETKEYS UNHEARD a
-> -ERR Invalid command specified
# The command has no keys.
COMMAND GETKEYS PING
-> -ERR The command has no key arguments

== CONFIG
# map: of GET the settings with their values
# OK: of SET and RESETSTAT
CONFIG GET slowlog-max-len
-> *2 $"slowlog-max-len" $"128"
CONFIG SET slowlog-max-len 128
-> +OK

== CONFIG fails
# There is no such setting.
CONFIG SET unheard 1
-> -ERR Unknown option or number of arguments for CONFIG SET - 'unheard'
# The value does not fit.
CONFIG SET slowlog-max-len many
-> -ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed into an integer

== DBSIZE
# integer: how many keys
MSET a 1 b 2
-> +OK
DBSIZE
-> :2

== FLUSHALL
# OK: the keys are removed
SET page hello
-> +OK
FLUSHALL
-> +OK
DBSIZE
-> :0

== FLUSHDB
# OK: the keys are removed
SET page hello
-> +OK
FLUSHDB
-> +OK
DBSIZE
-> :0

== INFO
# string: the sections as text, a line for each fact
INFO cluster
-> $"# Cluster\r\ncluster_enabled:0\r\n"

== LASTSAVE
# integer: the time; 0 if there was none
LASTSAVE
-> :<<1796036802>>

== LATENCY
# any: of HISTOGRAM a map, of LATEST and HISTORY arrays, of RESET an integer
PING
-> +PONG
LATENCY HISTOGRAM ping
-> *2 $"ping" *4 $"calls" :<<3>> $"histogram_usec" *2 :<<1>> :<<3>>

== LOLWUT
# string: the name and the version of the server
LOLWUT
-> $"Claret ver. <<0.1.0>>\n"

== MONITOR
# OK: commands are shown from now on
ann: MONITOR
-> +OK
ben: SET page hello
-> +OK
ann <- +<<1796036545.378568 [0 127.0.0.1:50512]>> "SET" "page" "hello"

== ROLE
# array: the role, and what belongs to it
ROLE
-> *3 $"master" :0 *0

== SAVE
# OK: the snapshots are written
SAVE
-> +OK

== SHUTDOWN
# none: the server ends, and its connections are closed
SHUTDOWN
-> closed

== SLOWLOG
# array: of GET for each command its number, its time, how many microseconds it took, its words, and the client's address and name
# integer: of LEN how many there are
# OK: of RESET
CONFIG SET slowlog-log-slower-than 0
-> +OK
PING
-> +PONG
SLOWLOG GET 1
-> *1 *6 :<<3592073667162248>> :<<1796036833>> :<<12>> *1 $"PING" $"<<127.0.0.1:58946>>" $""
CONFIG SET slowlog-log-slower-than 10000
-> +OK

== SLOWLOG fails
# The number is negative.
SLOWLOG GET -5
-> -ERR count should be greater than or equal to -1

== TIME
# array: seconds since 1970, and microseconds of the second
TIME
-> *2 $"<<1796036802>>" $"<<457181>>"

== WAIT
# integer: how many further machines; 0 on a server that is alone
SET page hello
-> +OK
WAIT 1 100
-> :0

== WAIT fails
# The time-out is negative.
WAIT 1 -1
-> -ERR timeout is negative
# A number is not an integer.
WAIT one 100
-> -ERR value is not an integer or out of range
