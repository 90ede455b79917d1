//! What agents say to each other, in bytes.
//!
//! | what | bytes |
//! |---|---|
//! | preamble | 54, once in each direction of a connection |
//! | request | 28, then the payload if its workload has one |
//! | reply | the 28 of the request, then 16, then the payload |
//!
//! All numbers are little endian and all lengths fixed, so nothing that a stranger says makes anybody
//! allocate. The callee's two moments in the reply are what makes pairing with the callee's own
//! resources possible without any synchronised clock.

use crate::sample::Workload;

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a reply.
pub const REPLY_BYTES: usize = 44;
/// Bytes of a preamble.
pub const PREAMBLE_BYTES: usize = 54;
/// Bytes of the payload of workloads D and E, unless configured otherwise.
pub const PAYLOAD_BYTES: u32 = 51_200;
/// No payload is larger.
pub const PAYLOAD_BYTES_MAX: u32 = 16 << 20;

/// "cp" and the version of what is said here.
const MAGIC: u16 = 0x7063;
const VERSION: u16 = 1;
/// Flags of a request: a payload follows; the callee is to sign.
const HAS_PAYLOAD: u8 = 1;
const SIGNS: u8 = 2;
/// The first two bytes of a request: "p", and the version.
const REQUEST_MAGIC: u16 = 0x7001;

/// One call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// What the callee is to do.
    pub workload: Workload,
    /// It is to sign the digest as well, which only workload B can ask for.
    pub signs: bool,
    /// The group, counted within the epoch.
    pub group: u32,
    /// The caller's tick within the epoch.
    pub round: u32,
    /// When it was due, on the caller's wall clock.
    pub t_sched_ns: i64,
    /// When it was sent, on the caller's monotonic clock.
    pub t_send_ns: u64,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reply {
    /// The call.
    pub request: Request,
    /// When its header had been read, on the callee's wall clock.
    pub t_rx_ns: i64,
    /// Just before the reply was written, on the same clock.
    pub t_tx_ns: i64,
}

/// What both ends say of themselves before anything else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Preamble {
    /// Agents of another deployment are none of ours.
    pub deployment: u64,
    /// Who speaks.
    pub node: u16,
    /// Drawn when the process began.
    pub incarnation: u64,
    /// The version of the member list.
    pub membership: u64,
    /// A hash of the member list.
    pub members: u64,
    /// Bytes of a payload.
    pub payload_bytes: u32,
    /// Nanoseconds between two ticks.
    pub period_ns: u64,
    /// The seed of the groups.
    pub seed: u64,
}

/// Why a connection is of no use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mismatch {
    /// It is not an agent.
    NotAnAgent,
    /// It speaks another version.
    Version,
    /// It belongs to another deployment.
    Deployment,
    /// It has another list of peers.
    Members,
    /// It was started with another payload, period or seed.
    Configuration,
    /// It is not who it should be at that address.
    Node,
}

impl Mismatch {
    /// What it is, for people.
    pub const fn says(self) -> &'static str {
        match self {
            Self::NotAnAgent => "that is not an agent of the probe",
            Self::Version => "that agent is of another version",
            Self::Deployment => "that agent belongs to another deployment",
            Self::Members => "that agent has another file of peers",
            Self::Configuration => "that agent has another payload, period or seed",
            Self::Node => "that agent is another node than the file of peers says",
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

    /// Whether the callee hashes what it got.
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
    /// Its bytes.
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

    /// The request in these bytes, if it is one.
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
    /// Its bytes.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..REQUEST_BYTES].copy_from_slice(&self.request.encode());
        bytes[28..36].copy_from_slice(&self.t_rx_ns.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.t_tx_ns.to_le_bytes());
        bytes
    }

    /// The reply in these bytes, if it is one.
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
    /// Its bytes.
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

    /// What these bytes say.
    ///
    /// # Errors
    /// They are not a preamble of this version.
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

    /// Whether the other end measures the same thing as this one.
    ///
    /// # Errors
    /// In what they differ.
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
