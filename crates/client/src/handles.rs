//! Typed views of keys. A handle is only a name: the same handle works on a client, where each call
//! takes effect by itself, and on a transaction.
//!
//! Methods that do not need a reply do not request it, so that they conflict with as little as
//! possible: [`Set::add`] does not report whether the member is new, [`Set::insert`] does.

use crate::client::Client;
use crate::command::{Command, FromReply, Many, Pairs, ToArg};
use crate::error::Result;
use crate::txn::Tx;
use std::marker::PhantomData;
use wire::resp::ClientReply;

/// Objects that carry out commands: `&Client` or `&mut Tx`.
pub trait Executor: Send {
    /// Carries a command out and returns its reply.
    ///
    /// # Errors
    /// As [`Client::send`] or [`Tx::send`].
    fn ask(self, command: Command) -> impl Future<Output = Result<ClientReply>> + Send;

    /// Carries out a write and discards its reply. In a transaction the write may wait until the
    /// next awaited command or the commit.
    ///
    /// # Errors
    /// As [`Client::send`] or [`Tx::tell`].
    fn tell(self, command: Command) -> impl Future<Output = Result<()>> + Send;
}

impl Executor for &Client {
    async fn ask(self, command: Command) -> Result<ClientReply> {
        self.send(command).await
    }

    async fn tell(self, command: Command) -> Result<()> {
        self.send(command).await
    }
}

impl Executor for &mut Tx {
    async fn ask(self, command: Command) -> Result<ClientReply> {
        self.send(command).await
    }

    async fn tell(self, command: Command) -> Result<()> {
        Tx::tell(self, command).await
    }
}

async fn ask<T: FromReply>(on: impl Executor, command: Command) -> Result<T> {
    T::from_reply(on.ask(command).await?)
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$($type:ident),*>) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name<$($type = String),*> {
            key: Vec<u8>,
            items: PhantomData<fn() -> ($($type,)*)>,
        }

        impl<$($type: ToArg + FromReply + Send),*> $name<$($type),*> {
            /// A handle for a key.
            pub fn new(key: impl ToArg) -> Self {
                let mut bytes = Vec::new();
                key.write(&mut bytes);
                Self { key: bytes, items: PhantomData }
            }

            fn command(&self, name: &str) -> Command {
                Command::new(name).arg(&self.key)
            }

            /// Removes the key.
            ///
            /// # Errors
            /// As [`Executor::tell`].
            pub async fn clear(&self, on: impl Executor) -> Result<()> {
                on.tell(self.command("DEL")).await
            }
        }
    };
}

/// Methods of handles: `ask` for an awaited reply, `tell` for a write without one.
macro_rules! methods {
    ($($(#[$doc:meta])* $kind:ident $name:ident($($arg:ident: $type:ty),*)
        $(-> $reply:ty)? = $command:literal $(, $word:expr)*;)*) => {
        $(methods!(@ $kind [$(#[$doc])*] $name [$($arg: $type),*] [$($reply)?] $command [$($word),*]);)*
    };
    (@ ask [$($doc:tt)*] $name:ident [$($arg:ident: $type:ty),*] [$reply:ty]
        $command:literal [$($word:expr),*]) => {
        $($doc)*
        ///
        /// # Errors
        /// As [`Executor::ask`].
        pub async fn $name(&self, on: impl Executor $(, $arg: $type)*) -> Result<$reply> {
            ask(on, self.command($command)$(.arg($word))*).await
        }
    };
    (@ tell [$($doc:tt)*] $name:ident [$($arg:ident: $type:ty),*] []
        $command:literal [$($word:expr),*]) => {
        $($doc)*
        ///
        /// # Errors
        /// As [`Executor::tell`].
        pub async fn $name(&self, on: impl Executor $(, $arg: $type)*) -> Result<()> {
            on.tell(self.command($command)$(.arg($word))*).await
        }
    };
}

handle! {
    /// A set of members.
    Set<T>
}

impl<T: ToArg + FromReply + Send> Set<T> {
    methods! {
        /// Adds a member.
        tell add(member: impl ToArg + Send) = "SADD", member;
        /// Adds a member and returns whether it is new.
        ask insert(member: impl ToArg + Send) -> bool = "SADD", member;
        /// Removes a member.
        tell remove(member: impl ToArg + Send) = "SREM", member;
        /// Whether a value is a member.
        ask contains(member: impl ToArg + Send) -> bool = "SISMEMBER", member;
        /// Number of members.
        ask len() -> u64 = "SCARD";
    }

    /// All members.
    ///
    /// # Errors
    /// As [`Executor::ask`].
    pub async fn members(&self, on: impl Executor) -> Result<Vec<T>> {
        Ok(ask::<Many<T>>(on, self.command("SMEMBERS")).await?.0)
    }
}

handle! {
    /// A map of fields to values (a hash).
    Map<K, V>
}

impl<K: ToArg + FromReply + Send, V: ToArg + FromReply + Send> Map<K, V> {
    methods! {
        /// Sets a field.
        tell set(field: impl ToArg + Send, value: impl ToArg + Send) = "HSET", field, value;
        /// The value of a field.
        ask get(field: impl ToArg + Send) -> Option<V> = "HGET", field;
        /// Removes a field.
        tell remove(field: impl ToArg + Send) = "HDEL", field;
        /// Whether a field exists.
        ask contains(field: impl ToArg + Send) -> bool = "HEXISTS", field;
        /// Number of fields.
        ask len() -> u64 = "HLEN";
        /// Adds to a field that is a number.
        tell add(field: impl ToArg + Send, delta: i64) = "HINCRBY", field, delta;
    }

    /// All fields with their values.
    ///
    /// # Errors
    /// As [`Executor::ask`].
    pub async fn entries(&self, on: impl Executor) -> Result<Vec<(K, V)>> {
        Ok(ask::<Pairs<K, V>>(on, self.command("HGETALL")).await?.0)
    }
}

handle! {
    /// A sorted set: members with scores, in the order of the scores.
    SortedSet<M>
}

impl<M: ToArg + FromReply + Send> SortedSet<M> {
    methods! {
        /// Gives a member a score.
        tell add(score: f64, member: impl ToArg + Send) = "ZADD", score, member;
        /// Removes a member.
        tell remove(member: impl ToArg + Send) = "ZREM", member;
        /// The score of a member.
        ask score(member: impl ToArg + Send) -> Option<f64> = "ZSCORE", member;
        /// Number of members with smaller scores.
        ask rank(member: impl ToArg + Send) -> Option<u64> = "ZRANK", member;
        /// Number of members.
        ask len() -> u64 = "ZCARD";
    }

    /// Members with scores by position, ends included; negative positions count from the end.
    ///
    /// # Errors
    /// As [`Executor::ask`].
    pub async fn range(&self, on: impl Executor, from: i64, to: i64) -> Result<Vec<(M, f64)>> {
        let command = self.command("ZRANGE").arg(from).arg(to).arg("WITHSCORES");
        Ok(ask::<Pairs<M, f64>>(on, command).await?.0)
    }

    /// Members by score, ends included.
    ///
    /// # Errors
    /// As [`Executor::ask`].
    pub async fn range_by_score(&self, on: impl Executor, from: f64, to: f64) -> Result<Vec<M>> {
        let command = self.command("ZRANGE").arg(from).arg(to).arg("BYSCORE");
        Ok(ask::<Many<M>>(on, command).await?.0)
    }
}

handle! {
    /// A list.
    List<T>
}

impl<T: ToArg + FromReply + Send> List<T> {
    methods! {
        /// Puts an item at the end.
        tell push(item: impl ToArg + Send) = "RPUSH", item;
        /// Puts an item at the beginning.
        tell push_front(item: impl ToArg + Send) = "LPUSH", item;
        /// Takes the last item.
        ask pop() -> Option<T> = "RPOP";
        /// Takes the first item.
        ask pop_front() -> Option<T> = "LPOP";
        /// The item at a position; negative positions count from the end.
        ask get(index: i64) -> Option<T> = "LINDEX", index;
        /// Number of items.
        ask len() -> u64 = "LLEN";
    }

    /// Items by position, ends included; negative positions count from the end.
    ///
    /// # Errors
    /// As [`Executor::ask`].
    pub async fn range(&self, on: impl Executor, from: i64, to: i64) -> Result<Vec<T>> {
        Ok(ask::<Many<T>>(on, self.command("LRANGE").arg(from).arg(to)).await?.0)
    }
}

handle! {
    /// A counter. Additions never conflict with each other; with bounds they are tried.
    Counter<>
}

impl Counter {
    methods! {
        /// Adds.
        tell add(delta: i64) = "COUNTER.ADD", delta;
        /// Adds, if the bounds permit it, and returns whether they did.
        ask try_add(delta: i64) -> bool = "COUNTER.TRY", delta;
        /// The value.
        ask get() -> Option<i64> = "COUNTER.GET";
        /// Whether the value is at least a threshold; additions that cannot change the answer do
        /// not conflict.
        ask at_least(threshold: i64) -> bool = "COUNTER.ATLEAST", threshold;
        /// Sets the value.
        tell set(value: i64) = "COUNTER.SET", value;
        /// Sets the value and the bounds that it must stay within.
        tell set_bounded(value: i64, min: i64, max: i64) =
            "COUNTER.SET", value, "MIN", min, "MAX", max;
    }
}
