//! Common commands as methods of clients and of transactions.

use crate::client::Client;
use crate::command::{Command, FromReply, Pairs, ToArg};
use crate::error::Result;
use crate::handles::Executor;
use crate::txn::Tx;

/// Methods of `Client` and `Tx`: `ask` for a reply, `tell` for a write without one.
macro_rules! usual {
    ($($(#[$doc:meta])* $kind:ident $name:ident $(<$generic:ident>)? ($($arg:ident: $type:ty),*)
        -> $reply:ty = $command:literal;)*) => {
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Client::send`].
            pub async fn $name$(<$generic: FromReply>)?(&self, $($arg: $type),*) -> Result<$reply> {
                usual!(@ $kind self, Command::new($command)$(.arg($arg))*)
            })*
        }

        impl Tx {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Tx::send`].
            pub async fn $name$(<$generic: FromReply>)?(&mut self, $($arg: $type),*) -> Result<$reply> {
                usual!(@ $kind self, Command::new($command)$(.arg($arg))*)
            })*
        }
    };
    (@ ask $on:ident, $command:expr) => { $on.send($command).await };
    (@ tell $on:ident, $command:expr) => { Executor::tell($on, $command).await };
}

usual! {
    /// The value of a key.
    ask get<T>(key: impl ToArg) -> Option<T> = "GET";
    /// Sets the value of a key.
    tell set(key: impl ToArg, value: impl ToArg) -> () = "SET";
    /// Sets the value of a key without one; returns whether it did.
    ask set_if_absent(key: impl ToArg, value: impl ToArg) -> bool = "SETNX";
    /// Removes a key.
    tell del(key: impl ToArg) -> () = "DEL";
    /// Whether a key exists.
    ask exists(key: impl ToArg) -> bool = "EXISTS";
    /// Lets a key expire after some seconds.
    tell expire(key: impl ToArg, seconds: u64) -> () = "EXPIRE";
    /// Adds to a number and returns the sum.
    ask incr_by(key: impl ToArg, delta: i64) -> i64 = "INCRBY";
    /// The value of a field of a hash.
    ask hget<T>(key: impl ToArg, field: impl ToArg) -> Option<T> = "HGET";
    /// Sets a field of a hash.
    tell hset(key: impl ToArg, field: impl ToArg, value: impl ToArg) -> () = "HSET";
    /// Removes a field of a hash.
    tell hdel(key: impl ToArg, field: impl ToArg) -> () = "HDEL";
    /// All fields of a hash.
    ask hgetall(key: impl ToArg) -> Pairs<String, String> = "HGETALL";
    /// Adds a member to a set.
    tell sadd(key: impl ToArg, member: impl ToArg) -> () = "SADD";
    /// Removes a member from a set.
    tell srem(key: impl ToArg, member: impl ToArg) -> () = "SREM";
    /// Whether a set has a member.
    ask sismember(key: impl ToArg, member: impl ToArg) -> bool = "SISMEMBER";
    /// The members of a set.
    ask smembers(key: impl ToArg) -> Vec<String> = "SMEMBERS";
    /// The size of a set.
    ask scard(key: impl ToArg) -> u64 = "SCARD";
    /// Gives a member of a sorted set a score.
    tell zadd(key: impl ToArg, score: f64, member: impl ToArg) -> () = "ZADD";
    /// The score of a member of a sorted set.
    ask zscore(key: impl ToArg, member: impl ToArg) -> Option<f64> = "ZSCORE";
    /// Members of a sorted set by position, ends included.
    ask zrange(key: impl ToArg, from: i64, to: i64) -> Vec<String> = "ZRANGE";
    /// Puts an item at the beginning of a list.
    tell lpush(key: impl ToArg, item: impl ToArg) -> () = "LPUSH";
    /// Puts an item at the end of a list.
    tell rpush(key: impl ToArg, item: impl ToArg) -> () = "RPUSH";
    /// Items of a list by position, ends included.
    ask lrange(key: impl ToArg, from: i64, to: i64) -> Vec<String> = "LRANGE";
    /// The length of a list.
    ask llen(key: impl ToArg) -> u64 = "LLEN";
}
