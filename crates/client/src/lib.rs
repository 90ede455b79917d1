//! A client in Rust.
//!
//! ```no_run
//! # async fn example() -> client::Result<()> {
//! use client::{Client, Counter, Set};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let (seen, visits) = (Set::<String>::new("seen"), Counter::new("visits"));
//!
//! // Each call by itself ...
//! seen.add(&client, "ann").await?;
//!
//! // ... or several as one, run again until they commit. `add` does not ask for a reply, so it
//! // does not wait and travels with the commit.
//! let new = client
//!     .run(|mut tx| {
//!         let (seen, visits) = (seen.clone(), visits.clone());
//!         async move {
//!             let known = seen.contains(&mut tx, "bob").await?;
//!             if !known {
//!                 seen.add(&mut tx, "bob").await?;
//!                 visits.add(&mut tx, 1).await?;
//!             }
//!             Ok(!known)
//!         }
//!     })
//!     .await?;
//! # let _ = new;
//! # Ok(())
//! # }
//! ```
//!
//! Retries: a transaction that was aborted had no effect and is run again by [`Client::run`], on
//! the same connection, so that it keeps its age and cannot starve. The outcome of a commit whose
//! reply was lost is requested under its request number. A single write whose reply was lost is an
//! error with [`Error::maybe_committed`], unless sent by [`Client::once`].

mod batch;
mod cache;
mod client;
mod command;
mod connection;
mod deferred;
mod error;
mod handles;
mod locks;
mod retry;
mod txn;
mod types;
mod usual;

pub use crate::connection::dispatch::{Dispatch, Promise};
pub use crate::connection::tls::Tls;
pub use crate::locks::election::{Leader, Observation};
pub use crate::locks::keep::Keep;
pub use crate::locks::lock::{Lock, LockOptions, Share};
pub use crate::locks::retained::{Retained, RetainedOptions, Stay};
pub use batch::{Batch, Pipeline};
pub use cache::{Cache, CacheOptions, CacheStats};
pub use client::{Client, Options};
pub use command::{Command, FromReply, Many, Pairs, ToArg};
pub use deferred::Deferred;
pub use error::{Error, Result};
pub use handles::{Counter, Executor, List, Map, Set, SortedSet};
pub use retry::RetryPolicy;
pub use txn::{Tx, TxOptions};
pub use types::{Type, Typed};
pub use wire::resp::ClientReply;
