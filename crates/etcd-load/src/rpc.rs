//! Calls of etcd over one connection of HTTP/2, and its stream of watches.
//!
//! The connection is used directly, without the queue, the balancer and the reconnection of a
//! ready-made channel, because the processor time of the generator is missing to the servers on the
//! same machine. For the same reason a request is complete before its first byte is sent: it then
//! takes one packet, which etcd reads at once, and not two.

use crate::messages::{Call, KeyValue, PutRequest, RangeRequest, WatchRequest, WatchResponse};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Uri;
use http::uri::PathAndQuery;
use http_body::Frame;
use http_body_util::BodyExt;
use prost::Message;
use std::cell::Cell;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};
use tower_service::Service;

const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Bytes before a message: whether it is compressed, which no message here is, and its length.
const HEAD_BYTES: usize = 5;
/// Room for one message; tonic would allocate 8 KiB for each.
const BUFFER_BYTES: usize = 256;

/// A connection as the service that tonic calls.
#[derive(Clone)]
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

/// Body of a response.
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

/// One TCP connection to a member; clones share it.
#[derive(Clone)]
pub struct Connection {
    grpc: Grpc<Plain>,
    sender: SendRequest<Bytes>,
    origin: String,
    /// Bytes of messages in both directions, without the overhead of HTTP/2.
    bytes: Rc<Cell<u64>>,
}

impl Connection {
    /// Connects. A task of the runtime then moves the bytes.
    ///
    /// # Errors
    /// The member cannot be reached, or does not speak HTTP/2.
    pub async fn open(machine: SocketAddr) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("{machine}: {error}");
        let stream = TcpStream::connect(machine).await.map_err(|error| told(&error))?;
        stream.set_nodelay(true).map_err(|error| told(&error))?;
        // etcd answers in very many small frames when a large window is granted.
        let mut settings = h2::client::Builder::new();
        settings.data_frame_budget(usize::MAX);
        let handshake = settings.handshake::<_, Bytes>(stream).await;
        let (sender, connection) = handshake.map_err(|error| told(&error))?;
        // When it breaks, the waiting request reports the error.
        tokio::spawn(async move { drop(connection.await) });
        let origin = format!("http://{machine}");
        let uri: Uri = origin.parse().map_err(|error| told(&error))?;
        let grpc = Grpc::with_origin(Plain(sender.clone()), uri);
        Ok(Self { grpc, sender, origin, bytes: Rc::default() })
    }

    /// Bytes of all messages so far, without the overhead of HTTP/2.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Sets a key.
    ///
    /// # Errors
    /// An error of etcd or of the connection.
    pub async fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Status> {
        self.call(PutRequest { key, value, lease: 0 }).await.map(|_| ())
    }

    /// Reads a key, linearizably: the member asks the leader for the commit index to wait for.
    ///
    /// # Errors
    /// An error of etcd or of the connection.
    pub async fn get(&mut self, key: Vec<u8>) -> Result<Option<KeyValue>, Status> {
        let response = self.call(RangeRequest { key, ..RangeRequest::default() }).await?;
        Ok(response.pairs.into_iter().next())
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// An error of etcd or of the connection.
    pub async fn call<Q: Call>(&mut self, request: Q) -> Result<Q::Answer, Status> {
        self.grpc.ready().await?;
        let path = PathAndQuery::from_static(Q::PATH);
        let codec = Prost(PhantomData);
        let sent = request.encoded_len() + HEAD_BYTES;
        let answer = self.grpc.unary(Request::new(request), path, codec).await?;
        let (answer, received) = answer.into_inner();
        self.bytes.set(self.bytes.get() + (sent + received) as u64);
        Ok(answer)
    }

    /// Begins a stream of watches.
    ///
    /// # Errors
    /// An error of the connection.
    pub async fn watches(&self) -> Result<(Watcher, Watched), Status> {
        let head = http::Request::post(format!("{}{WATCH}", self.origin))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|error| Status::internal(error.to_string()))?;
        let mut sender = self.sender.clone().ready().await.map_err(broken)?;
        let (answer, stream) = sender.send_request(head, false).map_err(broken)?;
        let (bytes, input) = (self.bytes.clone(), BytesMut::new());
        let watched = Watched { answer: Some(answer), body: None, input, bytes };
        Ok((Watcher { stream, bytes: self.bytes.clone() }, watched))
    }
}

/// Sending end of a stream of watches.
pub struct Watcher {
    stream: SendStream<Bytes>,
    bytes: Rc<Cell<u64>>,
}

impl Watcher {
    /// Sends a request.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn ask(&mut self, request: &WatchRequest) -> Result<(), Status> {
        let mut bytes = BytesMut::with_capacity(BUFFER_BYTES);
        bytes.put_u8(0);
        bytes.put_u32(request.encoded_len() as u32);
        request.encode(&mut bytes).map_err(|error| Status::internal(error.to_string()))?;
        self.bytes.set(self.bytes.get() + bytes.len() as u64);
        self.stream.send_data(bytes.freeze(), false).map_err(broken)
    }
}

/// Receiving end of a stream of watches.
pub struct Watched {
    answer: Option<ResponseFuture>,
    body: Option<RecvStream>,
    input: BytesMut,
    bytes: Rc<Cell<u64>>,
}

impl Watched {
    /// The next message.
    ///
    /// # Errors
    /// The stream has ended, or the message cannot be read.
    pub async fn next(&mut self) -> Result<WatchResponse, Status> {
        if let Some(answer) = self.answer.take() {
            self.body = Some(answer.await.map_err(broken)?.into_body());
        }
        let ended = || Status::unavailable("etcd has ended the stream of watches");
        let body = self.body.as_mut().ok_or_else(ended)?;
        loop {
            if let Some(message) = message(&mut self.input) {
                self.bytes.set(self.bytes.get() + (HEAD_BYTES + message.len()) as u64);
                let read = WatchResponse::decode(message);
                return read.map_err(|error| Status::internal(error.to_string()));
            }
            let bytes = body.data().await.ok_or_else(ended)?.map_err(broken)?;
            body.flow_control().release_capacity(bytes.len()).map_err(broken)?;
            self.input.extend_from_slice(&bytes);
        }
    }
}

/// The first message of these bytes, if it is complete. The sender is the etcd that this program
/// was started for: its message lengths are trusted.
fn message(input: &mut BytesMut) -> Option<Bytes> {
    let head = input.get(1..HEAD_BYTES)?;
    let len = u32::from_be_bytes(head.try_into().ok()?) as usize;
    if input.len() < HEAD_BYTES + len {
        return None;
    }
    input.advance(HEAD_BYTES);
    Some(input.split_to(len).freeze())
}

/// Codec for messages, with small buffers.
struct Prost<M>(PhantomData<fn(M)>);

impl<Q, A> Codec for Prost<(Q, A)>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    type Encode = Q;
    type Decode = (A, usize);
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
    /// A message and its length in bytes.
    type Item = (A, usize);
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let len = from.remaining() + HEAD_BYTES;
        A::decode(from)
            .map(|read| Some((read, len)))
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, BUFFER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_from_a_stream_when_they_are_whole() {
        let mut input = BytesMut::from(&b"\0\0\0\0\x02\x10\x07\0\0\0"[..]);
        assert_eq!(message(&mut input).as_deref(), Some(&b"\x10\x07"[..]));
        assert_eq!(message(&mut input), None);
        input.extend_from_slice(b"\0\0");
        assert_eq!(message(&mut input).as_deref(), Some(&b""[..]));
        assert!(input.is_empty());
    }
}
