//! First frame on a connection between machines.

use super::{FRAME_HEADER_BYTES, HELLO, begin_frame, end_frame, open, payload};
use crate::bytes::{put_u16, put_u32, put_word};
use adt::Corrupt;
use engine::cluster::level::Level;
use engine::ids::MachineId;

/// Longest name of a cluster, in bytes.
pub const HELLO_CLUSTER_BYTES_MAX: usize = 64;
/// Longest digest of placement rules, in bytes.
const HELLO_RULES_BYTES_MAX: usize = 16;
/// Longest name of a cluster with a digest behind it, in bytes.
const HELLO_IDENTITY_BYTES_MAX: usize = HELLO_CLUSTER_BYTES_MAX + 1 + HELLO_RULES_BYTES_MAX;
/// Longest advertised client address, in bytes.
pub const HELLO_ADDRESS_BYTES_MAX: usize = 512;
/// Longest payload of a first frame. A sender of another protocol hardly ever announces so short a
/// frame, and so is refused at once.
const HELLO_FRAME_BYTES_MAX: usize = 1 << 10;

const _: () = assert!(
    HELLO_IDENTITY_BYTES_MAX + HELLO_ADDRESS_BYTES_MAX + 64 < HELLO_FRAME_BYTES_MAX,
    "the longest first frame fits"
);

/// Identity of a machine: the first frame in each direction of every connection between machines.
/// Its form is the same in all versions, so that different versions can recognize each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Name of its cluster.
    pub cluster: String,
    /// Digest of the cluster's placement rules; empty if there are none, or the machine does not know them
    /// yet. In the frame it is behind the name, after a line feed, if it is not empty.
    pub rules: String,
    /// Number of the machine in the cluster.
    pub machine: MachineId,
    /// Number of the process's life: it grows with every restart.
    pub life: u32,
    /// Format level that its build supports.
    pub level: Level,
    /// Address on which it listens for clients.
    pub address: String,
    /// Number of its workers.
    pub worker_count: u16,
}

/// Appends `hello` as one frame.
///
/// # Panics
/// If the cluster's name or the address is too long; the configuration checks both.
pub fn encode_hello(hello: &Hello, out: &mut Vec<u8>) {
    assert!(hello.cluster.len() <= HELLO_CLUSTER_BYTES_MAX, "the name of the cluster is too long");
    assert!(hello.rules.len() <= HELLO_RULES_BYTES_MAX, "the digest of the rules is too long");
    assert!(hello.address.len() <= HELLO_ADDRESS_BYTES_MAX, "the address is too long");
    let frame = begin_frame(out);
    out.push(HELLO);
    put_u16(hello.level.0, out);
    let rules = if hello.rules.is_empty() { String::new() } else { format!("\n{}", hello.rules) };
    put_word(format!("{}{rules}", hello.cluster).as_bytes(), out);
    put_u16(hello.machine.0, out);
    put_u32(hello.life, out);
    put_word(hello.address.as_bytes(), out);
    put_u16(hello.worker_count, out);
    end_frame(frame, out).expect("a first frame is short");
}

/// Decodes the first frame of a connection. Returns it and its length, or `None` while it is
/// incomplete. The first four bytes of a RESP client are [`Corrupt`].
pub fn decode_hello(bytes: &[u8]) -> Result<Option<(Hello, usize)>, Corrupt> {
    let Some(payload) = payload(bytes, HELLO_FRAME_BYTES_MAX)? else {
        return Ok(None);
    };
    let (kind, mut reader) = open(payload)?;
    if kind != HELLO {
        return Err(Corrupt);
    }
    let level = Level(reader.u16()?);
    let cluster = reader.text()?;
    let (machine, life) = (MachineId(reader.u16()?), reader.u32()?);
    let address = reader.text()?;
    let worker_count = reader.u16()?;
    reader.finish()?;
    if cluster.len() > HELLO_IDENTITY_BYTES_MAX || address.len() > HELLO_ADDRESS_BYTES_MAX {
        return Err(Corrupt);
    }
    let (cluster, rules) = cluster.split_once('\n').unwrap_or((cluster, ""));
    let (cluster, rules) = (cluster.to_owned(), rules.to_owned());
    let address = address.to_owned();
    let hello = Hello { cluster, rules, machine, life, level, address, worker_count };
    Ok(Some((hello, FRAME_HEADER_BYTES + payload.len())))
}
