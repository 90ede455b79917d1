//! First frame in each direction, which has no header: it opens or resumes a session.

use super::Malformed;
use super::frame::framed;
use super::record::{Input, Record};
use engine::coordination::{Password, TreeSessionId, Zxid};

/// First message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Always 0 so far.
    pub protocol_version: i32,
    /// Latest change that the client has seen; 0 for none.
    pub last_zxid_seen: Zxid,
    /// Session time-out that the client asks for: the session ends after so long a silence. The
    /// server may choose another.
    pub timeout_ms: i32,
    /// Session to resume; 0 for a new one.
    pub session: TreeSessionId,
    /// Password of the session to resume, ignored for a new one. `None` stands for a field that
    /// does not have sixteen bytes, and matches no session.
    pub password: Option<Password>,
    /// Whether the client accepts a read-only server. Old clients omit the field, and their
    /// response must omit it too.
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

    /// Decodes the content of a frame.
    ///
    /// # Errors
    /// If it is no such request; the connection must be closed without an answer.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(frame);
        Ok(Self {
            protocol_version: input.get()?,
            last_zxid_seen: input.get()?,
            timeout_ms: input.get()?,
            session: TreeSessionId(input.get()?),
            password: input.get()?,
            read_only: input.get().ok(),
        })
    }
}

/// Response of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Always 0 so far.
    pub protocol_version: i32,
    /// Session time-out that the server chose; 0 if the session has ended.
    pub timeout_ms: i32,
    /// The session; 0 if it has ended.
    pub session: TreeSessionId,
    /// Password that the client must present to resume the session.
    pub password: Password,
    /// Whether this server is read-only. Present exactly if the request has the field.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// Response for a session that has ended, is unknown or has another password. `read_only` is as
    /// in [`ConnectResponse`]. The server closes the connection after it.
    pub fn expired(read_only: Option<bool>) -> Self {
        let (session, password) = (TreeSessionId(0), [0; 16]);
        Self { protocol_version: 0, timeout_ms: 0, session, password, read_only }
    }

    /// Whether the session does not exist. Like other clients, this looks at the time-out alone.
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

    /// Decodes the content of a frame.
    ///
    /// # Errors
    /// If it is no such response.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(frame);
        Ok(Self {
            protocol_version: input.get()?,
            timeout_ms: input.get()?,
            session: TreeSessionId(input.get()?),
            password: input.get::<Option<Password>>()?.ok_or(Malformed)?,
            read_only: input.get().ok(),
        })
    }
}
