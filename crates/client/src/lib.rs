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
mod client;
mod command;
mod connection;
mod dispatch;
mod election;
mod error;
mod handles;
mod keep;
mod lock;
mod mux;
mod retained;
mod retry;
mod tls;
mod txn;
mod usual;

pub use batch::{Batch, Pipeline};
pub use client::{Client, Options};
pub use command::{Command, FromReply, Many, Pairs, ToArg};
pub use dispatch::{Dispatch, Promise};
pub use election::{Leader, Observation};
pub use error::{Error, Result};
pub use handles::{Counter, Executor, List, Map, Set, SortedSet};
pub use keep::Keep;
pub use lock::{Lock, LockOptions, Share};
pub use retained::{Retained, RetainedOptions, Stay};
pub use retry::RetryPolicy;
pub use tls::Tls;
pub use txn::{Tx, TxOptions};
pub use wire::resp::ClientReply;
