//! Messages of etcd, by hand from its `rpc.proto`: fields that nobody here looks at are left out, and
//! the decoder skips them.

use prost::Message;

/// A request with the one answer to it.
pub trait Call: Message + 'static {
    /// What is answered.
    type Answer: Message + Default + 'static;
    /// The name of the call.
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

/// What every answer begins with.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// The last change that the store has made, which is that of the request if it has made one.
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
    /// What it gets.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease that it ends with; nought for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// The key is set, and on the disks of a majority.
#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {
    /// When.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// Reads keys.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    /// The key, or the first one.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The first key that is not read any more; empty for one key only.
    #[prost(bytes = "vec", tag = "2")]
    pub end: Vec<u8>,
    /// So many at most; nought for all.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// 1 for growing, 2 for falling order.
    #[prost(int32, tag = "5")]
    pub order: i32,
    /// By what: 2 for the revision at which a key was created.
    #[prost(int32, tag = "6")]
    pub target: i32,
    /// What this member has will do, whatever the others know. Never set here.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Without values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// None that was created later than at this revision; nought for all.
    #[prost(int64, tag = "13")]
    pub created_max: i64,
}

/// What was read.
#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    /// When.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The keys with their values that were there.
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KeyValue>,
}

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The change that created it.
    #[prost(int64, tag = "2")]
    pub created: i64,
    /// What it has.
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

/// What was deleted.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteResponse {
    /// When.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// How many keys.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

/// Does some requests if what is compared is so, and others if not.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    /// What is compared.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// If all is so.
    #[prost(message, repeated, tag = "2")]
    pub then: Vec<Part>,
    /// If not.
    #[prost(message, repeated, tag = "3")]
    pub otherwise: Vec<Part>,
}

/// Whether a key's revision is what it should be.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// 0 for equal.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// 1 for the revision at which it was created.
    #[prost(int32, tag = "2")]
    pub target: i32,
    /// The key.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    /// The revision; nought if there is no such key.
    #[prost(int64, optional, tag = "5")]
    pub created: Option<i64>,
}

impl Compare {
    /// Whether there is no such key.
    pub fn absent(key: Vec<u8>) -> Self {
        Self { result: 0, target: 1, key, created: Some(0) }
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

/// What a transaction has done.
#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    /// When.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Whether all that was compared was so.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// By request, what came of it.
    #[prost(message, repeated, tag = "3")]
    pub parts: Vec<PartResponse>,
}

/// What came of a request of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct PartResponse {
    /// Of a read.
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

/// Begins a lease.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    /// So many seconds without a sign of life.
    #[prost(int64, tag = "1")]
    pub ttl_s: i64,
}

/// A lease has begun.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    /// Its number.
    #[prost(int64, tag = "2")]
    pub lease: i64,
}

/// Ends a lease, and its keys with it.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeRequest {
    /// Its number.
    #[prost(int64, tag = "1")]
    pub lease: i64,
}

/// It has ended.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

/// Begins a watch or ends it.
#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    /// Which to begin.
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreate>,
    /// Which to end.
    #[prost(message, optional, tag = "2")]
    pub cancel: Option<WatchCancel>,
}

/// A watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCreate {
    /// On this key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// From this change on.
    #[prost(int64, tag = "3")]
    pub from: i64,
    /// What it is told by.
    #[prost(int64, tag = "7")]
    pub watch: i64,
}

/// The end of a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCancel {
    /// Which.
    #[prost(int64, tag = "1")]
    pub watch: i64,
}

/// What is said on a stream of watches.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    /// Of this watch.
    #[prost(int64, tag = "2")]
    pub watch: i64,
    /// That it was ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// The changes from which on is known what has happened, if the watch began before.
    #[prost(int64, tag = "5")]
    pub compacted: i64,
    /// Changes.
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

/// The first key behind all that begin with this prefix, which must not end with the last byte that
/// there is.
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
        assert_eq!(absent.encode_to_vec(), b"\x10\x01\x1a\x01k\x28\x00", "the nought is said");
        let watch = WatchCreate { key: b"k".to_vec(), from: 8, watch: 3 };
        let request = WatchRequest { create: Some(watch), cancel: None };
        assert_eq!(request.encode_to_vec(), b"\x0a\x07\x0a\x01k\x18\x08\x38\x03");
    }

    #[test]
    fn answers_are_read_past_what_nobody_looks_at() {
        // A header, a pair with its revisions, and the number of pairs.
        let bytes = b"\x0a\x02\x18\x07\x12\x0a\x0a\x01k\x10\x05\x20\x01\x2a\x01v\x20\x01";
        let response = RangeResponse::decode(&bytes[..]).expect("valid");
        let pair = KeyValue { key: b"k".to_vec(), created: 5, value: b"v".to_vec() };
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
