//! What a machine says first on a connection to another one.

use super::{FRAME_HEADER_BYTES, HELLO, begin_frame, end_frame, open, payload};
use crate::bytes::{put_u16, put_u32, put_word};
use adt::Corrupt;
use engine::level::Level;
use engine::message::MachineId;

/// Longest name of a cluster, in bytes.
pub const HELLO_CLUSTER_BYTES_MAX: usize = 64;
/// Longest address that a machine tells, in bytes.
pub const HELLO_ADDRESS_BYTES_MAX: usize = 512;
/// Longest payload of a first frame: whoever speaks something else has hardly a chance to be
/// waited for.
const HELLO_FRAME_BYTES_MAX: usize = 1 << 10;

const _: () = assert!(
    HELLO_CLUSTER_BYTES_MAX + HELLO_ADDRESS_BYTES_MAX + 64 < HELLO_FRAME_BYTES_MAX,
    "the longest first frame fits"
);

/// Who a machine is. The first frame in each direction of every connection between machines, of
/// one form in all versions, so that different versions can tell each other what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which cluster it belongs to.
    pub cluster: String,
    /// Its number there.
    pub machine: MachineId,
    /// Which of its lives this is.
    pub life: u32,
    /// What its build understands.
    pub level: Level,
    /// Where it listens for clients.
    pub address: String,
    /// How many workers it has.
    pub worker_count: u16,
}

/// Appends `hello` as one frame.
///
/// # Panics
/// If the cluster's name or the address is too long; that is checked where they are set.
pub fn encode_hello(hello: &Hello, out: &mut Vec<u8>) {
    assert!(hello.cluster.len() <= HELLO_CLUSTER_BYTES_MAX, "the name of the cluster is too long");
    assert!(hello.address.len() <= HELLO_ADDRESS_BYTES_MAX, "the address is too long");
    let frame = begin_frame(out);
    out.push(HELLO);
    put_u16(hello.level.0, out);
    put_word(hello.cluster.as_bytes(), out);
    put_u16(hello.machine.0, out);
    put_u32(hello.life, out);
    put_word(hello.address.as_bytes(), out);
    put_u16(hello.worker_count, out);
    end_frame(frame, out).expect("a first frame is short");
}

/// Reads the first frame of a connection; gives it and the number of bytes it took, or `None` as
/// long as it is not complete. Of a client that speaks RESP, the first four bytes are [`Corrupt`].
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
    if cluster.len() > HELLO_CLUSTER_BYTES_MAX || address.len() > HELLO_ADDRESS_BYTES_MAX {
        return Err(Corrupt);
    }
    let (cluster, address) = (cluster.to_owned(), address.to_owned());
    let hello = Hello { cluster, machine, life, level, address, worker_count };
    Ok(Some((hello, FRAME_HEADER_BYTES + payload.len())))
}
