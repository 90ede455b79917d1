# Commands for channels.

== PSUBSCRIBE
# push: `psubscribe`, the pattern, and how many subscriptions the connection has; one for each pattern
ann: PSUBSCRIBE news.*
-> *3 $"psubscribe" $"news.*" :1
ben: PUBLISH news.sport hello
-> :1
ann <- *4 $"pmessage" $"news.*" $"news.sport" $"hello"

== PUBLISH
# integer: how many receivers
ann: SUBSCRIBE news
-> *3 $"subscribe" $"news" :1
ben: PUBLISH news hello
-> :1
ann <- *3 $"message" $"news" $"hello"

== PUBSUB
# array: of CHANNELS the channels; of NUMSUB each channel with its number of subscribers
# integer: of NUMPAT how many patterns
ann: SUBSCRIBE news
-> *3 $"subscribe" $"news" :1
ben: PUBSUB CHANNELS
-> *1 $"news"
ben: PUBSUB NUMSUB news sport
-> *4 $"news" :1 $"sport" :0
ben: PUBSUB NUMPAT
-> :0

== PUNSUBSCRIBE
# push: `punsubscribe`, the pattern, and how many subscriptions are left; one for each pattern
PSUBSCRIBE news.*
-> *3 $"psubscribe" $"news.*" :1
PUNSUBSCRIBE news.*
-> *3 $"punsubscribe" $"news.*" :0

== SPUBLISH
# integer: how many receivers
ann: SSUBSCRIBE orders
-> *3 $"ssubscribe" $"orders" :1
ben: SPUBLISH orders hello
-> :1
ann <- *3 $"smessage" $"orders" $"hello"

== SSUBSCRIBE
# push: `ssubscribe`, the channel, and how many subscriptions to sharded channels the connection has; one for each channel
SSUBSCRIBE orders
-> *3 $"ssubscribe" $"orders" :1

== SUBSCRIBE
# push: `subscribe`, the channel, and how many subscriptions the connection has; one for each channel
ann: SUBSCRIBE news
-> *3 $"subscribe" $"news" :1
ben: PUBLISH news hello
-> :1
ann <- *3 $"message" $"news" $"hello"

== SUNSUBSCRIBE
# push: `sunsubscribe`, the channel, and how many subscriptions are left; one for each channel
SSUBSCRIBE orders
-> *3 $"ssubscribe" $"orders" :1
SUNSUBSCRIBE orders
-> *3 $"sunsubscribe" $"orders" :0

== UNSUBSCRIBE
# push: `unsubscribe`, the channel, and how many subscriptions are left; one for each channel
SUBSCRIBE news
-> *3 $"subscribe" $"news" :1
UNSUBSCRIBE news
-> *3 $"unsubscribe" $"news" :0
