//! Gateways: they own the sessions of clients, turn commands into requests to shards, coordinate
//! transactions and put the replies back into the order of the commands.
//!
//! One command takes this way: [`Gateway::command`] finds it in the table, checks what the session
//! may do ([`dispatch`]), and sends its operations ([`data`]). What needs more than one message is
//! a *job*: a transaction ([`txn`]), a snapshot over several shards ([`snapshot`]), a blocking
//! command ([`blocking`]), something that asks everybody ([`gather`]). While a job runs, its
//! session's further commands are held back, so that a pipeline is carried out in order.

pub mod acl;
mod api;
mod data;
mod dispatch;
mod mail;
mod reply;
mod session;
pub mod session_commands;
mod slab;
mod work;

pub use api::{
    Admin, ClientFilter, Config, Facts, GatewayStats, Knowledge, Opening, Output, PeerMessage,
    Question, SessionId, UserConfig,
};

use crate::limits::{PIPELINE_REQUESTS_MAX, TRANSACTION_BYTES_MAX};
use crate::message::{GatewayId, Now, Response};
use acl::Acl;
use adt::{ErrorReply, Reply};
use mail::Mail;
use session::{Held, Session};
use slab::Slab;

/// One gateway. The server feeds it and carries out what [`Gateway::poll`] gives.
pub struct Gateway {
    config: Config,
    acl: Acl,
    facts: Facts,
    now: Now,
    mail: Mail,
    sessions: Slab<Session>,
    next_client: u64,
    /// Sessions whose held commands may go on.
    resumable: Vec<SessionId>,
}
