//! The first frame in each direction, which has no header: a session begins or goes on.

use super::Malformed;
use super::frame::framed;
use super::record::{Input, Record};
use engine::coordination::{Password, SessionId, Zxid};

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Nought so far.
    pub protocol_version: i32,
    /// The latest change that the client has seen; nought for none.
    pub last_zxid_seen: Zxid,
    /// The session is to end when nothing was heard of it for so long. The server may decide
    /// otherwise.
    pub timeout_ms: i32,
    /// The session that is to go on; nought for a new one.
    pub session: SessionId,
    /// What proves that it is one's own; for a new session it means nothing. `None` stands for
    /// anything but sixteen bytes, and proves nothing.
    pub password: Option<Password>,
    /// Whether a server that can only read will do. Old clients do not say, and must not be
    /// answered either.
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        framed(out, |out| {
            self.protocol_version.put(out);
            self.last_zxid_seen.put(out);
            self.timeout_ms.put(out);
            self.session.0.put(out);
            self.password.put(out);
            self.read_only.iter().for_each(|read_only| read_only.put(out));
        });
    }

    /// Reads what is in a frame.
    ///
    /// # Errors
    /// It is no such request; the connection must be closed without an answer.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(frame);
        Ok(Self {
            protocol_version: input.get()?,
            last_zxid_seen: input.get()?,
            timeout_ms: input.get()?,
            session: SessionId(input.get()?),
            password: input.get()?,
            read_only: input.get().ok(),
        })
    }
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Nought so far.
    pub protocol_version: i32,
    /// The session ends when nothing was heard of it for so long; nought if it has ended.
    pub timeout_ms: i32,
    /// The session; nought if it has ended.
    pub session: SessionId,
    /// What proves that it is one's own.
    pub password: Password,
    /// Whether this server can only read; must be said if the client has said something, and not
    /// otherwise.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The session has ended, or never was, or the password is another one. `read_only` is as in
    /// [`ConnectResponse`]. The server closes the connection after it.
    pub fn expired(read_only: Option<bool>) -> Self {
        let (session, password) = (SessionId(0), [0; 16]);
        Self { protocol_version: 0, timeout_ms: 0, session, password, read_only }
    }

    /// Whether this says that there is no such session. As other clients do, only the timeout is
    /// looked at.
    pub fn is_expired(&self) -> bool {
        self.timeout_ms <= 0
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        framed(out, |out| {
            self.protocol_version.put(out);
            self.timeout_ms.put(out);
            self.session.0.put(out);
            Some(self.password).put(out);
            self.read_only.iter().for_each(|read_only| read_only.put(out));
        });
    }

    /// Reads what is in a frame.
    ///
    /// # Errors
    /// It is no such response.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(frame);
        Ok(Self {
            protocol_version: input.get()?,
            timeout_ms: input.get()?,
            session: SessionId(input.get()?),
            password: input.get::<Option<Password>>()?.ok_or(Malformed)?,
            read_only: input.get().ok(),
        })
    }
}
