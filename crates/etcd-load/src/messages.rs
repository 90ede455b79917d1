//! Messages of etcd, written by hand from its `rpc.proto`: unused fields are left out, and the
//! decoder skips them.

use prost::Message;

/// A request with its answer.
pub trait Call: Message + 'static {
    /// Type of the answer.
    type Answer: Message + Default + 'static;
    /// Path of the call.
    const PATH: &'static str;
}

macro_rules! calls {
    ($($request:ident => $answer:ident at $path:literal),* $(,)?) => {
        $(impl Call for $request {
            type Answer = $answer;
            const PATH: &'static str = concat!("/etcdserverpb.", $path);
        })*
    };
}

calls! {
    PutRequest => PutResponse at "KV/Put",
    RangeRequest => RangeResponse at "KV/Range",
    DeleteRequest => DeleteResponse at "KV/DeleteRange",
    TxnRequest => TxnResponse at "KV/Txn",
    LeaseGrantRequest => LeaseGrantResponse at "Lease/LeaseGrant",
    LeaseRevokeRequest => LeaseRevokeResponse at "Lease/LeaseRevoke",
}

/// Header of every answer.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// Revision of the store, which is that of the request if it has changed the store.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// The revision of an answer.
pub fn revision(header: &Option<Header>) -> i64 {
    header.as_ref().map_or(0, |header| header.revision)
}

/// Sets a key.
#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// New value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease that the key ends with; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// Confirms that the key is set, and on the disks of a majority.
#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {
    /// Header with the revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// Reads keys.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    /// The key, or the first one.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// End of the range, exclusive; empty for one key only.
    #[prost(bytes = "vec", tag = "2")]
    pub end: Vec<u8>,
    /// Most keys to return; 0 for all.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// 1 for ascending, 2 for descending order.
    #[prost(int32, tag = "5")]
    pub order: i32,
    /// Sort key: 2 for the revision at which a key was created.
    #[prost(int32, tag = "6")]
    pub target: i32,
    /// Whether to read the member's own state without asking the others. Never set here.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Whether to leave out values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Latest revision of creation; 0 for any.
    #[prost(int64, tag = "13")]
    pub created_max: i64,
}

/// Result of a read.
#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    /// Header with the revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The keys with their values.
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KeyValue>,
}

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Revision at which it was created.
    #[prost(int64, tag = "2")]
    pub created: i64,
    /// Revision at which it was last set.
    #[prost(int64, tag = "3")]
    pub modified: i64,
    /// Value of the key.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// Deletes a key.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

/// Result of a delete.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteResponse {
    /// Header with the revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Number of deleted keys.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

/// Does some requests if all comparisons hold, and others if not.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    /// The comparisons.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// Requests if all comparisons hold.
    #[prost(message, repeated, tag = "2")]
    pub then: Vec<Part>,
    /// Requests if not.
    #[prost(message, repeated, tag = "3")]
    pub otherwise: Vec<Part>,
}

/// Comparison of a key's revision.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// Operator: 0 for equal.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// Compared field: 1 for the revision at which the key was created, 2 for that at which it was
    /// last set.
    #[prost(int32, tag = "2")]
    pub target: i32,
    /// The key.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    /// The revision of the creation; 0 if there is no such key.
    #[prost(int64, optional, tag = "5")]
    pub created: Option<i64>,
    /// The revision at which it was last set.
    #[prost(int64, optional, tag = "6")]
    pub modified: Option<i64>,
}

impl Compare {
    /// A comparison that holds if there is no such key.
    pub fn absent(key: Vec<u8>) -> Self {
        Self { result: 0, target: 1, key, created: Some(0), modified: None }
    }

    /// A comparison that holds if the key was last set at this revision.
    pub fn unchanged(key: Vec<u8>, revision: i64) -> Self {
        Self { result: 0, target: 2, key, created: None, modified: Some(revision) }
    }
}

/// One request of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct Part {
    /// A read.
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeRequest>,
    /// A write.
    #[prost(message, optional, tag = "2")]
    pub put: Option<PutRequest>,
}

/// Result of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    /// Header with the revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Whether all comparisons held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// Result of each request.
    #[prost(message, repeated, tag = "3")]
    pub parts: Vec<PartResponse>,
}

/// Result of a request of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct PartResponse {
    /// Result of a read.
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

/// Begins a lease.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    /// Seconds without a keep-alive after which it ends.
    #[prost(int64, tag = "1")]
    pub ttl_s: i64,
}

/// Confirms that a lease has begun.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    /// Number of the lease.
    #[prost(int64, tag = "2")]
    pub lease: i64,
}

/// Ends a lease, and its keys with it.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeRequest {
    /// Number of the lease.
    #[prost(int64, tag = "1")]
    pub lease: i64,
}

/// Confirms that a lease has ended.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

/// Begins a watch or ends it.
#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    /// Watch to begin.
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreate>,
    /// Watch to end.
    #[prost(message, optional, tag = "2")]
    pub cancel: Option<WatchCancel>,
}

/// A watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCreate {
    /// Key to watch.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// First revision of interest.
    #[prost(int64, tag = "3")]
    pub from: i64,
    /// Number of the watch, which identifies its events.
    #[prost(int64, tag = "7")]
    pub watch: i64,
}

/// The end of a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCancel {
    /// Number of the watch.
    #[prost(int64, tag = "1")]
    pub watch: i64,
}

/// Message on a stream of watches.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    /// Number of the watch.
    #[prost(int64, tag = "2")]
    pub watch: i64,
    /// Whether the watch was ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// Earliest revision that the server still has, if the watch began before it.
    #[prost(int64, tag = "5")]
    pub compacted: i64,
    /// Events of the watch.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// A change of a key.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// 0 if it was set, 1 if it was deleted.
    #[prost(int32, tag = "1")]
    pub kind: i32,
}

/// The first key behind all that begin with this prefix, which must not end with the byte 255.
pub fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_bytes_of_the_published_format() {
        let put = PutRequest { key: b"k".to_vec(), value: b"vw".to_vec(), lease: 0 };
        assert_eq!(put.encode_to_vec(), b"\x0a\x01k\x12\x02vw");
        let range =
            RangeRequest { key: b"k".to_vec(), serializable: true, ..RangeRequest::default() };
        assert_eq!(range.encode_to_vec(), b"\x0a\x01k\x38\x01");
        let absent = Compare::absent(b"k".to_vec());
        assert_eq!(absent.encode_to_vec(), b"\x10\x01\x1a\x01k\x28\x00", "the 0 is encoded");
        let unchanged = Compare::unchanged(b"k".to_vec(), 9);
        assert_eq!(unchanged.encode_to_vec(), b"\x10\x02\x1a\x01k\x30\x09");
        let watch = WatchCreate { key: b"k".to_vec(), from: 8, watch: 3 };
        let request = WatchRequest { create: Some(watch), cancel: None };
        assert_eq!(request.encode_to_vec(), b"\x0a\x07\x0a\x01k\x18\x08\x38\x03");
    }

    #[test]
    fn unused_fields_of_answers_are_skipped() {
        // A header, a pair with its revisions, and the number of pairs.
        let bytes = b"\x0a\x02\x18\x07\x12\x0c\x0a\x01k\x10\x05\x18\x06\x20\x01\x2a\x01v\x20\x01";
        let response = RangeResponse::decode(&bytes[..]).expect("valid");
        let pair = KeyValue { key: b"k".to_vec(), created: 5, modified: 6, value: b"v".to_vec() };
        assert_eq!(response.pairs, [pair]);
        assert_eq!(revision(&response.header), 7);
        let put = PutResponse::decode(&b"\x0a\x02\x18\x07"[..]).expect("valid");
        assert_eq!(revision(&put.header), 7);
    }

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(behind(b"/lock-1/"), b"/lock-10");
    }
}
