//! Binary messages between agents.
//!
//! | message | bytes |
//! |---|---|
//! | preamble | 54, once in each direction of a connection |
//! | request | 28, then the payload if its workload has one |
//! | reply | the 28 of the request, then 16, then the payload |
//!
//! All numbers are little endian and all lengths fixed, so no input from a stranger causes an
//! allocation. The callee's two moments in the reply make it possible to pair calls with the
//! callee's own resources without synchronised clocks.

use crate::sample::Workload;

/// Size of a request in bytes.
pub const REQUEST_BYTES: usize = 28;
/// Size of a reply in bytes.
pub const REPLY_BYTES: usize = 44;
/// Size of a preamble in bytes.
pub const PREAMBLE_BYTES: usize = 54;
/// Default size of the payload of workloads D and E in bytes.
pub const PAYLOAD_BYTES: u32 = 51_200;
/// Maximum size of a payload in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 16 << 20;

/// Magic number "cp" and the protocol version.
const MAGIC: u16 = 0x7063;
const VERSION: u16 = 1;
/// Flags of a request: a payload follows; the callee is to sign.
const HAS_PAYLOAD: u8 = 1;
const SIGNS: u8 = 2;
/// First two bytes of a request: "p", and the version.
const REQUEST_MAGIC: u16 = 0x7001;

/// One call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Workload of the callee.
    pub workload: Workload,
    /// Whether it is to sign the digest as well, which only workload B can request.
    pub signs: bool,
    /// Group, counted within the epoch.
    pub group: u32,
    /// Tick of the caller within the epoch.
    pub round: u32,
    /// Due time, on the caller's wall clock.
    pub t_sched_ns: i64,
    /// Time of sending, on the caller's monotonic clock.
    pub t_send_ns: u64,
}

/// Reply to a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reply {
    /// Request of the call.
    pub request: Request,
    /// Time at which the request's header had been read, on the callee's wall clock.
    pub t_rx_ns: i64,
    /// Time just before the reply was written, on the same clock.
    pub t_tx_ns: i64,
}

/// Identification that both ends send first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Preamble {
    /// Hash of the deployment's name; agents of other deployments are refused.
    pub deployment: u64,
    /// Number of the sender.
    pub node: u16,
    /// Random number drawn at the start of the process.
    pub incarnation: u64,
    /// Version of the member list.
    pub membership: u64,
    /// Hash of the member list.
    pub members: u64,
    /// Size of a payload in bytes.
    pub payload_bytes: u32,
    /// Nanoseconds between two ticks.
    pub period_ns: u64,
    /// Seed of the groups.
    pub seed: u64,
}

/// Reason to refuse a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mismatch {
    /// The peer is not an agent.
    NotAnAgent,
    /// The peer uses another protocol version.
    Version,
    /// The peer belongs to another deployment.
    Deployment,
    /// The peer has another list of peers.
    Members,
    /// The peer was started with another payload, period or seed.
    Configuration,
    /// The peer is not the node that should be at that address.
    Node,
}

impl Mismatch {
    /// Description of the reason.
    pub const fn says(self) -> &'static str {
        match self {
            Self::NotAnAgent => "the peer is not an agent of the probe",
            Self::Version => "the agent has another version",
            Self::Deployment => "the agent belongs to another deployment",
            Self::Members => "the agent has another file of peers",
            Self::Configuration => "the agent has another payload, period or seed",
            Self::Node => "the agent is not the node in the file of peers",
        }
    }
}

impl Workload {
    /// Whether a payload follows the request and the reply.
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Network | Self::All)
    }

    /// Whether the callee writes to its disk.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Disk | Self::All)
    }

    /// Whether the callee hashes the request.
    pub const fn hashes(self) -> bool {
        matches!(self, Self::Crypto | Self::All)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn flags(workload: Workload, signs: bool) -> u8 {
    let payload = if workload.has_payload() { HAS_PAYLOAD } else { 0 };
    payload | if signs { SIGNS } else { 0 }
}

impl Request {
    /// Encodes the request.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..2].copy_from_slice(&REQUEST_MAGIC.to_le_bytes());
        bytes[2] = self.workload.code();
        bytes[3] = flags(self.workload, self.signs);
        bytes[4..8].copy_from_slice(&self.group.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.round.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.t_sched_ns.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.t_send_ns.to_le_bytes());
        bytes
    }

    /// Decodes a request, if the bytes are one.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let workload = Workload::from_code(bytes[2])?;
        let known = u16_at(bytes, 0) == REQUEST_MAGIC;
        let signs = workload == Workload::Crypto && bytes[3] & SIGNS != 0;
        (known && bytes[3] == flags(workload, signs)).then(|| Self {
            workload,
            signs,
            group: u32_at(bytes, 4),
            round: u32_at(bytes, 8),
            t_sched_ns: u64_at(bytes, 12).cast_signed(),
            t_send_ns: u64_at(bytes, 20),
        })
    }
}

impl Reply {
    /// Encodes the reply.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..REQUEST_BYTES].copy_from_slice(&self.request.encode());
        bytes[28..36].copy_from_slice(&self.t_rx_ns.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.t_tx_ns.to_le_bytes());
        bytes
    }

    /// Decodes a reply, if the bytes are one.
    pub fn decode(bytes: &[u8; REPLY_BYTES]) -> Option<Self> {
        let mut head = [0; REQUEST_BYTES];
        head.copy_from_slice(&bytes[..REQUEST_BYTES]);
        Some(Self {
            request: Request::decode(&head)?,
            t_rx_ns: u64_at(bytes, 28).cast_signed(),
            t_tx_ns: u64_at(bytes, 36).cast_signed(),
        })
    }
}

impl Preamble {
    /// Encodes the preamble.
    pub fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.deployment.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.node.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[22..30].copy_from_slice(&self.membership.to_le_bytes());
        bytes[30..38].copy_from_slice(&self.members.to_le_bytes());
        bytes[38..42].copy_from_slice(&self.payload_bytes.to_le_bytes());
        // A period has at most 2^32 microseconds.
        let period_us = u32::try_from(self.period_ns / 1_000).unwrap_or(u32::MAX);
        bytes[42..46].copy_from_slice(&period_us.to_le_bytes());
        bytes[46..54].copy_from_slice(&self.seed.to_le_bytes());
        bytes
    }

    /// Decodes a preamble.
    ///
    /// # Errors
    /// The bytes are not a preamble of this version.
    pub fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, Mismatch> {
        if u16_at(bytes, 0) != MAGIC {
            return Err(Mismatch::NotAnAgent);
        }
        if u16_at(bytes, 2) != VERSION {
            return Err(Mismatch::Version);
        }
        Ok(Self {
            deployment: u64_at(bytes, 4),
            node: u16_at(bytes, 12),
            incarnation: u64_at(bytes, 14),
            membership: u64_at(bytes, 22),
            members: u64_at(bytes, 30),
            payload_bytes: u32_at(bytes, 38),
            period_ns: u64::from(u32_at(bytes, 42)) * 1_000,
            seed: u64_at(bytes, 46),
        })
    }

    /// Checks that the other end measures the same thing as this one.
    ///
    /// # Errors
    /// The property in which they differ.
    pub fn agree(&self, other: &Self) -> Result<(), Mismatch> {
        if self.deployment != other.deployment {
            return Err(Mismatch::Deployment);
        }
        if (self.membership, self.members) != (other.membership, other.members) {
            return Err(Mismatch::Members);
        }
        let of = |one: &Self| (one.payload_bytes, one.period_ns / 1_000, one.seed);
        if of(self) == of(other) { Ok(()) } else { Err(Mismatch::Configuration) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(workload: Workload) -> Request {
        let (signs, t_sched_ns, t_send_ns) = (workload == Workload::Crypto, -5, u64::MAX - 1);
        Request { workload, signs, group: 7, round: 86_399, t_sched_ns, t_send_ns }
    }

    #[test]
    fn messages_survive_their_bytes() {
        for workload in Workload::ALL {
            let request = request(workload);
            assert_eq!(Request::decode(&request.encode()), Some(request));
            let reply = Reply { request, t_rx_ns: 1_700_000_000_000_000_000, t_tx_ns: -1 };
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        let preamble = preamble();
        assert_eq!(Preamble::decode(&preamble.encode()), Ok(preamble));
    }

    fn preamble() -> Preamble {
        Preamble {
            deployment: 1,
            node: 2,
            incarnation: 3,
            membership: 4,
            members: 5,
            payload_bytes: PAYLOAD_BYTES,
            period_ns: 1_000_000_000,
            seed: 9,
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let bytes = request(Workload::Disk).encode();
        for (at, value) in [(0, 0), (1, 0), (2, 5), (3, 1), (3, 2), (3, 4)] {
            let mut wrong = bytes;
            wrong[at] = value;
            assert_eq!(Request::decode(&wrong), None, "{at}");
        }
        assert_eq!(Preamble::decode(&[0; PREAMBLE_BYTES]), Err(Mismatch::NotAnAgent));
        let mut newer = preamble().encode();
        newer[2] = 2;
        assert_eq!(Preamble::decode(&newer), Err(Mismatch::Version));
    }

    #[test]
    fn agents_that_measure_something_else_are_told_so() {
        let ours = preamble();
        assert_eq!(ours.agree(&Preamble { node: 9, incarnation: 8, ..ours }), Ok(()));
        let other = Preamble { deployment: 2, ..ours };
        assert_eq!(ours.agree(&other), Err(Mismatch::Deployment));
        assert_eq!(ours.agree(&Preamble { members: 6, ..ours }), Err(Mismatch::Members));
        let other = Preamble { period_ns: 5, ..ours };
        assert_eq!(ours.agree(&other), Err(Mismatch::Configuration));
    }
}
