# Words that a command does not take, as Redis says it. Each behind the same keys.

== lists
SET str s
-> +OK
SET num 5
-> +OK
RPUSH list a b
-> :2
SADD set a
-> :1
ZADD zset 1 a 2 b
-> :2
HSET hash f v n 5
-> :2
LPUSH
-> -ERR wrong number of arguments for 'lpush' command
LPUSH str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
RPUSH
-> -ERR wrong number of arguments for 'rpush' command
RPUSH str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LPUSHX
-> -ERR wrong number of arguments for 'lpushx' command
LPUSHX str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
RPUSHX
-> -ERR wrong number of arguments for 'rpushx' command
RPUSHX str v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LPOP
-> -ERR wrong number of arguments for 'lpop' command
LPOP list 1 extra
-> -ERR wrong number of arguments for 'lpop' command
LPOP str 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LPOP list abc
-> -ERR value is out of range, must be positive
LPOP list ""
-> -ERR value is out of range, must be positive
RPOP
-> -ERR wrong number of arguments for 'rpop' command
RPOP list 1 extra
-> -ERR wrong number of arguments for 'rpop' command
RPOP str 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
RPOP list abc
-> -ERR value is out of range, must be positive
RPOP list ""
-> -ERR value is out of range, must be positive
LLEN
-> -ERR wrong number of arguments for 'llen' command
LLEN list extra
-> -ERR wrong number of arguments for 'llen' command
LLEN str
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LRANGE
-> -ERR wrong number of arguments for 'lrange' command
LRANGE list 0 1 extra
-> -ERR wrong number of arguments for 'lrange' command
LRANGE str 0 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LRANGE list abc 1
-> -ERR value is not an integer or out of range
LRANGE list "" 1
-> -ERR value is not an integer or out of range
LRANGE list 0 ""
-> -ERR value is not an integer or out of range
LINDEX
-> -ERR wrong number of arguments for 'lindex' command
LINDEX list 0 extra
-> -ERR wrong number of arguments for 'lindex' command
LINDEX str 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LINDEX list abc
-> -ERR value is not an integer or out of range
LINDEX list ""
-> -ERR value is not an integer or out of range
LSET
-> -ERR wrong number of arguments for 'lset' command
LSET list 0 v extra
-> -ERR wrong number of arguments for 'lset' command
LSET str 0 v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LSET list abc v
-> -ERR value is not an integer or out of range
LSET list "" v
-> -ERR value is not an integer or out of range
LREM
-> -ERR wrong number of arguments for 'lrem' command
LREM list 0 v extra
-> -ERR wrong number of arguments for 'lrem' command
LREM str 0 v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LREM list abc v
-> -ERR value is not an integer or out of range
LREM list "" v
-> -ERR value is not an integer or out of range
LTRIM
-> -ERR wrong number of arguments for 'ltrim' command
LTRIM list 0 -1 extra
-> -ERR wrong number of arguments for 'ltrim' command
LTRIM str 0 -1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LTRIM list abc -1
-> -ERR value is not an integer or out of range
LTRIM list "" -1
-> -ERR value is not an integer or out of range
LTRIM list 0 ""
-> -ERR value is not an integer or out of range
LINSERT
-> -ERR wrong number of arguments for 'linsert' command
LINSERT list BEFORE a v extra
-> -ERR wrong number of arguments for 'linsert' command
LINSERT str BEFORE a v
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LINSERT list nosuch a v
-> -ERR syntax error
LPOS
-> -ERR wrong number of arguments for 'lpos' command
LPOS list a RANK
-> -ERR syntax error
LPOS list a RANK 1 COUNT 1 MAXLEN 1 extra
-> -ERR syntax error
LPOS str a RANK 1 COUNT 1 MAXLEN 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LPOS list a nosuch 1 COUNT 1 MAXLEN 1
-> -ERR syntax error
LPOS list a RANK abc COUNT 1 MAXLEN 1
-> -ERR value is not an integer or out of range
LPOS list a RANK 0 COUNT 1 MAXLEN 1
-> -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
LPOS list a RANK "" COUNT 1 MAXLEN 1
-> -ERR value is not an integer or out of range
LPOS list a RANK 1 COUNT abc MAXLEN 1
-> -ERR COUNT can't be negative
LPOS list a RANK 1 COUNT "" MAXLEN 1
-> -ERR COUNT can't be negative
LPOS list a RANK 1 COUNT 1 MAXLEN abc
-> -ERR MAXLEN can't be negative
LPOS list a RANK 1 COUNT 1 MAXLEN ""
-> -ERR MAXLEN can't be negative
LMOVE
-> -ERR wrong number of arguments for 'lmove' command
LMOVE list list LEFT RIGHT extra
-> -ERR wrong number of arguments for 'lmove' command
LMOVE str list LEFT RIGHT
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LMOVE list list nosuch RIGHT
-> -ERR syntax error
RPOPLPUSH
-> -ERR wrong number of arguments for 'rpoplpush' command
RPOPLPUSH list list extra
-> -ERR wrong number of arguments for 'rpoplpush' command
RPOPLPUSH str list
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LMPOP
-> -ERR wrong number of arguments for 'lmpop' command
LMPOP 1 list LEFT COUNT
-> -ERR syntax error
LMPOP 1 list LEFT COUNT 1 extra
-> -ERR syntax error
LMPOP abc list LEFT COUNT 1
-> -ERR numkeys should be greater than 0
LMPOP "" list LEFT COUNT 1
-> -ERR numkeys should be greater than 0
LMPOP 1 str LEFT COUNT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
LMPOP 1 list nosuch COUNT 1
-> -ERR syntax error
LMPOP 1 list LEFT COUNT abc
-> -ERR count should be greater than 0
LMPOP 1 list LEFT COUNT ""
-> -ERR count should be greater than 0
BLPOP
-> -ERR wrong number of arguments for 'blpop' command
BLPOP list 1 extra
-> -ERR timeout is not a float or out of range
BLPOP str 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BLPOP list abc
-> -ERR timeout is not a float or out of range
BLPOP list -1
-> -ERR timeout is negative
BLPOP list ""
-> -ERR timeout is not a float or out of range
BRPOP
-> -ERR wrong number of arguments for 'brpop' command
BRPOP list 1 extra
-> -ERR timeout is not a float or out of range
BRPOP str 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BRPOP list abc
-> -ERR timeout is not a float or out of range
BRPOP list -1
-> -ERR timeout is negative
BRPOP list ""
-> -ERR timeout is not a float or out of range
BLMOVE
-> -ERR wrong number of arguments for 'blmove' command
BLMOVE list list LEFT RIGHT 1 extra
-> -ERR wrong number of arguments for 'blmove' command
BLMOVE str list LEFT RIGHT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BLMOVE list list nosuch RIGHT 1
-> -ERR syntax error
BLMOVE list list LEFT RIGHT abc
-> -ERR timeout is not a float or out of range
BLMOVE list list LEFT RIGHT -1
-> -ERR timeout is negative
BLMOVE list list LEFT RIGHT ""
-> -ERR timeout is not a float or out of range
BRPOPLPUSH
-> -ERR wrong number of arguments for 'brpoplpush' command
BRPOPLPUSH list list 1 extra
-> -ERR wrong number of arguments for 'brpoplpush' command
BRPOPLPUSH str list 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BRPOPLPUSH list list abc
-> -ERR timeout is not a float or out of range
BRPOPLPUSH list list -1
-> -ERR timeout is negative
BRPOPLPUSH list list ""
-> -ERR timeout is not a float or out of range
BLMPOP
-> -ERR wrong number of arguments for 'blmpop' command
BLMPOP 1 1 list LEFT COUNT
-> -ERR syntax error
BLMPOP 1 1 list LEFT COUNT 1 extra
-> -ERR syntax error
BLMPOP abc 1 list LEFT COUNT 1
-> -ERR timeout is not a float or out of range
BLMPOP -1 1 list LEFT COUNT 1
-> -ERR timeout is negative
BLMPOP "" 1 list LEFT COUNT 1
-> -ERR timeout is not a float or out of range
BLMPOP 1 abc list LEFT COUNT 1
-> -ERR numkeys should be greater than 0
BLMPOP 1 "" list LEFT COUNT 1
-> -ERR numkeys should be greater than 0
BLMPOP 1 1 str LEFT COUNT 1
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BLMPOP 1 1 list nosuch COUNT 1
-> -ERR syntax error
BLMPOP 1 1 list LEFT COUNT abc
-> -ERR count should be greater than 0
BLMPOP 1 1 list LEFT COUNT ""
-> -ERR count should be greater than 0
DBSIZE
-> :6
