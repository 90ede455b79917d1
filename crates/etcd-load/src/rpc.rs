//! The two calls of etcd that are measured, over one connection of HTTP/2.
//!
//! The messages are written by hand from etcd's `rpc.proto`: fields that nobody here looks at are
//! left out, and the decoder skips them. The connection is used as it is, without the queue, the
//! balancer and the reconnecting of a ready-made channel: what the generator spends, the servers on
//! the same machine lack. For the same reason a request is known as a whole before its first byte
//! is sent: it then takes one packet, which etcd reads at once, and not two.

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::Uri;
use http::uri::PathAndQuery;
use http_body::Frame;
use http_body_util::BodyExt;
use prost::Message;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};
use tower_service::Service;

const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";
/// Room for one message; tonic would allocate 8 KiB for each.
const BUFFER_BYTES: usize = 256;

/// Sets a key.
#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// What it gets.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// The key is set, and on the disks of a majority.
#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {}

/// Reads a key.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// What this member has will do, whatever the others know. Never set here.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
}

/// What was read.
#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    /// The key with its value, if it was there.
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KeyValue>,
}

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// What it has.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// A connection as the service that tonic calls.
struct Plain(SendRequest<Bytes>);

impl Service<http::Request<Body>> for Plain {
    type Response = http::Response<Answer>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.0.poll_ready(cx).map_err(broken)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sender = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let mut sender = sender.ready().await.map_err(broken)?;
            let head = http::Request::from_parts(head, ());
            let (answer, mut stream) = sender.send_request(head, false).map_err(broken)?;
            stream.send_data(body, true).map_err(broken)?;
            Ok(answer.await.map_err(broken)?.map(Answer))
        })
    }
}

fn broken(error: h2::Error) -> Status {
    Status::unavailable(error.to_string())
}

/// What follows the head of a response.
struct Answer(RecvStream);

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let stream = &mut self.0;
        if let Some(data) = ready!(stream.poll_data(cx)) {
            let released = data.and_then(|bytes| {
                stream.flow_control().release_capacity(bytes.len())?;
                Ok(Frame::data(bytes))
            });
            return Poll::Ready(Some(released.map_err(broken)));
        }
        let trailers = ready!(stream.poll_trailers(cx)).map_err(broken)?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

/// One TCP connection to a member.
pub struct Connection(Grpc<Plain>);

impl Connection {
    /// Connects. A task of the runtime moves the bytes from now on.
    ///
    /// # Errors
    /// The member cannot be reached, or does not speak HTTP/2.
    pub async fn open(machine: SocketAddr) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("{machine}: {error}");
        let stream = TcpStream::connect(machine).await.map_err(|error| told(&error))?;
        stream.set_nodelay(true).map_err(|error| told(&error))?;
        let handshake = h2::client::handshake(stream).await;
        let (sender, connection) = handshake.map_err(|error| told(&error))?;
        // When it breaks, the request that is waiting says so.
        tokio::spawn(async move { drop(connection.await) });
        let origin: Uri = format!("http://{machine}").parse().map_err(|error| told(&error))?;
        Ok(Self(Grpc::with_origin(Plain(sender), origin)))
    }

    /// Sets a key.
    ///
    /// # Errors
    /// What etcd or the connection says.
    pub async fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Status> {
        let request = PutRequest { key, value };
        self.call::<_, PutResponse>(PUT, request).await.map(|_| ())
    }

    /// Reads a key, linearizably: the member asks the leader how far it must be.
    ///
    /// # Errors
    /// What etcd or the connection says.
    pub async fn get(&mut self, key: Vec<u8>) -> Result<Option<Vec<u8>>, Status> {
        let request = RangeRequest { key, serializable: false };
        let response: RangeResponse = self.call(RANGE, request).await?;
        Ok(response.pairs.into_iter().next().map(|pair| pair.value))
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await?;
        let path = PathAndQuery::from_static(path);
        let codec = Prost(PhantomData);
        Ok(self.0.unary(Request::new(request), path, codec).await?.into_inner())
    }
}

/// Messages to bytes and back, with small buffers.
struct Prost<M>(PhantomData<fn(M)>);

impl<Q, A> Codec for Prost<(Q, A)>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    type Encode = Q;
    type Decode = A;
    type Encoder = Prost<Q>;
    type Decoder = Prost<A>;

    fn encoder(&mut self) -> Prost<Q> {
        Prost(PhantomData)
    }

    fn decoder(&mut self) -> Prost<A> {
        Prost(PhantomData)
    }
}

impl<Q: Message> Encoder for Prost<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(to).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, BUFFER_BYTES)
    }
}

impl<A: Message + Default> Decoder for Prost<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        A::decode(from).map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, BUFFER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_bytes_of_the_published_format() {
        let put = PutRequest { key: b"k".to_vec(), value: b"vw".to_vec() };
        assert_eq!(put.encode_to_vec(), b"\x0a\x01k\x12\x02vw");
        let range = RangeRequest { key: b"k".to_vec(), serializable: true };
        assert_eq!(range.encode_to_vec(), b"\x0a\x01k\x38\x01");
    }

    #[test]
    fn answers_are_read_past_what_nobody_looks_at() {
        // A header, a pair with its revisions, and the number of pairs.
        let bytes = b"\x0a\x02\x18\x07\x12\x0a\x0a\x01k\x10\x05\x20\x01\x2a\x01v\x20\x01";
        let response = RangeResponse::decode(&bytes[..]).expect("valid");
        let pair = KeyValue { key: b"k".to_vec(), value: b"v".to_vec() };
        assert_eq!(response.pairs, [pair]);
        assert_eq!(PutResponse::decode(&b"\x0a\x02\x18\x07"[..]), Ok(PutResponse {}));
    }
}
