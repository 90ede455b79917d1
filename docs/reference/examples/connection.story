# Connection commands.

== AUTH
# OK: the connection is that of the user from now on
ACL SETUSER example on >secret ~* +@all
-> +OK
AUTH example secret
-> +OK
ACL WHOAMI
-> $"example"

== AUTH fails
# The name or the password is wrong.
AUTH example wrong
-> -WRONGPASS invalid username-password pair or user is disabled.
# The server has no password for `default`.
AUTH secret
-> -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?

== CLIENT
# OK: of SETNAME, SETINFO and other settings
# string: of GETNAME, INFO and LIST
# integer: of ID, GETREDIR, KILL with a filter, and UNBLOCK
# nil: of GETNAME without a name
# map: of TRACKINGINFO
CLIENT SETNAME shop
-> +OK
CLIENT GETNAME
-> $"shop"
CLIENT ID
-> :<<172>>

== CLIENT fails
# A name has no spaces.
CLIENT SETNAME "my shop"
-> -ERR Client names cannot contain spaces, newlines or special characters.
# There is no such client.
CLIENT KILL 127.0.0.1:1
-> -ERR No such client
# The type is not known.
CLIENT LIST TYPE other
-> -ERR Unknown client type 'other'

== ECHO
# string: the argument
ECHO hello
-> $"hello"

== HELLO
# array: with protocol 2 the facts below, names and values in turn
# map: the same with protocol 3
HELLO 2
-> *16 $"server" $"redis" $"version" $"7.4.0" $"proto" :2 $"id" :<<178>> $"mode" $"standalone" $"role" $"master" $"modules" *0 $"claret_version" $"<<0.1.0>>"

== HELLO fails
# The protocol is 2 or 3.
HELLO 4
-> -NOPROTO unsupported protocol version
# The name or the password is wrong.
HELLO 3 AUTH ann wrong
-> -WRONGPASS invalid username-password pair or user is disabled.

== PING
# simple: `PONG`, without an argument
# string: the argument
PING
-> +PONG
PING hello
-> $"hello"

== QUIT
# OK: the server closes the connection behind it
QUIT
-> +OK

== RESET
# simple: `RESET`
MULTI
-> +OK
RESET
-> +RESET
EXEC
-> -ERR EXEC without MULTI

== SELECT
# OK: the database is selected
SELECT 1
-> +OK
SET page hello
-> +OK
SELECT 0
-> +OK
GET page
-> $-1

== SELECT fails
# There are 16 databases, from 0.
SELECT 16
-> -ERR DB index is out of range
# The number is not an integer.
SELECT first
-> -ERR value is not an integer or out of range
