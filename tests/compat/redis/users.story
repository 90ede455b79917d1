# Users that are changed at run time. Error texts are Claret's own. A transaction with a command that its user may
# not call any more has no effect at all. There is no file of users to be loaded or saved: changes are kept as soon as they
# are made.

== a user is made, changed and removed
ACL SETUSER ann
-> +OK
ACL DRYRUN ann GET k
-> $"This user has no permissions to run the 'get' command"
here -> $"User ann has no permissions to run the 'get' command"
ACL SETUSER ann on >secret ~k* %R~r* &c* +@read +set
-> +OK
ACL DRYRUN ann GET k
-> +OK
ACL DRYRUN ann SET r v
-> $"This user has no permissions to access the 'r' key"
here -> $"No permissions to access a key"
ACL DRYRUN ann SET k v
-> +OK
ACL USERS
-> *2 $"ann" $"default"
ACL SETUSER ann nosuch
-> -ERR Error in ACL SETUSER modifier 'nosuch': Syntax error
here -> -ERR Error in ACL SETUSER modifier 'nosuch': syntax error; known are on, off, nopass, resetpass, reset, +command, -command, +@category, -@category, ~keys, %R~keys, %W~keys, resetkeys, &channels, resetchannels, and with ACL SETUSER >password, <password, #digest, !digest
ACL SETUSER ann +nosuch
-> -ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL
here -> -ERR Error in ACL SETUSER modifier '+nosuch': unknown command or subcommand
ACL SETUSER ann +@nosuch
-> -ERR Error in ACL SETUSER modifier '+@nosuch': Unknown command or category name in ACL
here -> -ERR Error in ACL SETUSER modifier '+@nosuch': unknown category; known are all, admin, dangerous, slow, write, fast, string, connection, bag, read, blocking, barrier, list, sortedset, log, keyspace, counter, transaction, lock, scripting, hash, pubsub, set, topk, types, uid, stream
ACL SETUSER ann #short
-> -ERR Error in ACL SETUSER modifier '#short': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters
here -> -ERR Error in ACL SETUSER modifier '#': the password hash must be exactly 64 characters and contain only lowercase hexadecimal characters
ACL SETUSER ann <nosuch
-> -ERR Error in ACL SETUSER modifier '<nosuch': The password you are trying to remove from the user does not exist
here -> -ERR Error in ACL SETUSER modifier '!': the user does not have the password that is to be removed
ACL SETUSER ann !2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
-> +OK
ACL SETUSER ann !2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
-> -ERR Error in ACL SETUSER modifier '!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b': The password you are trying to remove from the user does not exist
here -> -ERR Error in ACL SETUSER modifier '!': the user does not have the password that is to be removed
ACL SETUSER ann ~* ~*
-> +OK
ACL SETUSER ann ~x
-> -ERR Error in ACL SETUSER modifier '~x': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns
here -> -ERR Error in ACL SETUSER modifier '~x': all keys are allowed already; 'resetkeys' starts anew
ACL SETUSER ann &* &*
-> +OK
ACL SETUSER ann &x
-> -ERR Error in ACL SETUSER modifier '&x': Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels
here -> -ERR Error in ACL SETUSER modifier '&x': all channels are allowed already; 'resetchannels' starts anew
ACL SETUSER ann resetkeys ~x on off on
-> +OK
ACL DRYRUN ann GET x
-> +OK
ACL DRYRUN ann GET k
-> $"This user has no permissions to access the 'k' key"
here -> $"No permissions to access a key"
ACL SETUSER ann +@all ~y ?
-> -ERR Error in ACL SETUSER modifier '?': Syntax error
here -> -ERR Error in ACL SETUSER modifier '?': syntax error; known are on, off, nopass, resetpass, reset, +command, -command, +@category, -@category, ~keys, %R~keys, %W~keys, resetkeys, &channels, resetchannels, and with ACL SETUSER >password, <password, #digest, !digest
ACL DRYRUN ann DEL x
-> $"This user has no permissions to run the 'del' command"
here -> $"User ann has no permissions to run the 'del' command"
ACL SETUSER ann reset
-> +OK
ACL DRYRUN ann GET x
-> $"This user has no permissions to run the 'get' command"
here -> $"User ann has no permissions to run the 'get' command"
ACL DELUSER ann nosuch
-> :1
ACL USERS
-> *1 $"default"
ACL DELUSER ann
-> :0

== a user logs in
ACL SETUSER ann on >secret ~k* +@all
-> +OK
other: AUTH ann wrong
-> -WRONGPASS invalid username-password pair or user is disabled.
other: AUTH ann secret
-> +OK
other: ACL WHOAMI
-> $"ann"
other: SET k v
-> +OK
other: SET a v
-> -NOPERM this user has no permissions to access one of the keys used as arguments
here -> -NOPERM No permissions to access a key
ACL SETUSER ann -set resetpass
-> +OK
other: SET k v
-> -NOPERM this user has no permissions to run the 'set' command
here -> -NOPERM User ann has no permissions to run the 'set' command
other: ACL WHOAMI
-> $"ann"
other: AUTH ann secret
-> -WRONGPASS invalid username-password pair or user is disabled.
other: ACL WHOAMI
-> $"ann"
ACL SETUSER ann nopass
-> +OK
other: AUTH ann anything
-> +OK
ACL SETUSER ann off
-> +OK
other: GET k
-> $"v"
other: AUTH ann anything
-> -WRONGPASS invalid username-password pair or user is disabled.
ACL SETUSER ann on >new
-> +OK
other: AUTH ann anything
-> -WRONGPASS invalid username-password pair or user is disabled.
other: AUTH ann new
-> +OK
third: AUTH ann new
-> +OK
third: ACL WHOAMI
-> $"ann"
ACL DELUSER ann
-> :1

== a transaction fails when its user may not do what is queued
ACL SETUSER ann on nopass ~* +@all
-> +OK
other: AUTH ann x
-> +OK
other: MULTI
-> +OK
other: SET k v
-> +QUEUED
ACL SETUSER ann -set
-> +OK
other: EXEC
-> *1 -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand
here -> -EXECABORT Transaction discarded because of previous errors.
GET k
-> $-1
ACL DELUSER ann
-> :1

== users that cannot be
ACL SETUSER
-> -ERR wrong number of arguments for 'acl|setuser' command
ACL SETUSER ""
-> +OK
here -> -ERR the user name "" must have at least one character and no spaces or control characters
ACL SETUSER "a b" on
-> -ERR Usernames can't contain spaces or null characters
here -> -ERR the user name "a b" must have at least one character and no spaces or control characters
ACL DELUSER
-> -ERR wrong number of arguments for 'acl|deluser' command
ACL DELUSER default
-> -ERR The 'default' user cannot be removed
ACL LOAD x
-> -ERR wrong number of arguments for 'acl|load' command
ACL SAVE x
-> -ERR wrong number of arguments for 'acl|save' command
ACL SAVE
-> -ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.
here -> +OK
ACL LOAD
-> -ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.
here -> +OK
