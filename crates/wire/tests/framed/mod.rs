//! Requests and answers of ZooKeeper's protocol as whole frames.

use engine::coordination::{Code, Reply, Zxid};
use wire::jute::{Kind, Request, next_frame, reply};

/// Content of the only frame of `bytes`.
pub fn unframed(bytes: &[u8]) -> &[u8] {
    let (frame, len) = next_frame(bytes, usize::MAX).unwrap().expect("a whole frame");
    assert_eq!(len, bytes.len());
    frame
}

pub fn asked(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes).unwrap();
    bytes
}

pub fn answered(kind: &Kind, result: Result<&Reply, Code>) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply(kind, 2, Zxid(5), result, &mut bytes);
    bytes
}
