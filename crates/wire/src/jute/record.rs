//! Parts of all messages: numbers, strings, lists, and the records that occur in more than one
//! message. Numbers are big-endian, lengths and counts have 32 bits, and a length of -1 is null.

use super::Malformed;
use adt::Blob;
use engine::coordination::{Acl, Happened, Identity, Password, Stat, WatchedEvent, Zxid};

/// State of a connected client that may write: the only one that a server reports with an event.
const SYNC_CONNECTED: i32 = 3;

/// Value that can be written and read back.
pub(super) trait Record: Sized {
    /// Fewest bytes of an encoded value.
    const BYTES_MIN: usize;

    fn put(&self, out: &mut Vec<u8>);

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed>;
}

/// Bytes not read yet. They are hostile.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn get<T: Record>(&mut self) -> Result<T, Malformed> {
        T::get(self)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads a length or a count; `None` is null.
    fn size(&mut self) -> Result<Option<usize>, Malformed> {
        match self.get::<i32>()? {
            -1 => Ok(None),
            size => usize::try_from(size).map(Some).map_err(|_| Malformed),
        }
    }

    /// Reads bytes behind their length; `None` is null.
    fn bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let Some(len) = self.size()? else { return Ok(None) };
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some(taken))
    }
}

/// # Panics
/// If it has more than 31 bits: the limits of the product are far below.
fn put_size(size: usize, out: &mut Vec<u8>) {
    i32::try_from(size).expect("lengths and counts are below 2^31").put(out);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_size(bytes.len(), out);
    out.extend_from_slice(bytes);
}

pub(super) fn put_list(items: &[impl Record], out: &mut Vec<u8>) {
    put_size(items.len(), out);
    items.iter().for_each(|item| item.put(out));
}

impl Record for i32 {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.array().map(Self::from_be_bytes)
    }
}

impl Record for i64 {
    const BYTES_MIN: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.array().map(Self::from_be_bytes)
    }
}

impl Record for bool {
    const BYTES_MIN: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let [byte] = input.array()?;
        Ok(byte != 0)
    }
}

/// A string. Null is read as the empty one, and never written.
impl Record for Blob {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(input.bytes()?.unwrap_or_default()))
    }
}

/// A buffer, possibly null.
impl Record for Option<Blob> {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Some(bytes) => put_bytes(bytes, out),
            None => (-1i32).put(out),
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(input.bytes()?.map(Blob::new))
    }
}

/// A password in a buffer. `None` is null or a buffer of another length, which matches no session.
impl Record for Option<Password> {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Some(password) => put_bytes(password, out),
            None => (-1i32).put(out),
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(input.bytes()?.and_then(|bytes| bytes.try_into().ok()))
    }
}

/// A list. Null is read as the empty one, and never written.
impl<T: Record> Record for Vec<T> {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = input.size()?.unwrap_or_default();
        if count > input.rest().len() / T::BYTES_MIN {
            return Err(Malformed);
        }
        (0..count).map(|_| input.get()).collect()
    }
}

impl Record for Zxid {
    const BYTES_MIN: usize = i64::BYTES_MIN;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.get().map(Self)
    }
}

impl Record for Identity {
    const BYTES_MIN: usize = 2 * Blob::BYTES_MIN;

    fn put(&self, out: &mut Vec<u8>) {
        self.scheme.put(out);
        self.id.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { scheme: input.get()?, id: input.get()? })
    }
}

impl Record for Acl {
    const BYTES_MIN: usize = i32::BYTES_MIN + Identity::BYTES_MIN;

    fn put(&self, out: &mut Vec<u8>) {
        self.perms.put(out);
        self.who.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { perms: input.get()?, who: input.get()? })
    }
}

impl Record for Stat {
    const BYTES_MIN: usize = 6 * i64::BYTES_MIN + 5 * i32::BYTES_MIN;

    fn put(&self, out: &mut Vec<u8>) {
        self.czxid.put(out);
        self.mzxid.put(out);
        self.ctime_ms.put(out);
        self.mtime_ms.put(out);
        self.version.put(out);
        self.cversion.put(out);
        self.aversion.put(out);
        self.ephemeral_owner.put(out);
        self.data_length.put(out);
        self.num_children.put(out);
        self.pzxid.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            czxid: input.get()?,
            mzxid: input.get()?,
            ctime_ms: input.get()?,
            mtime_ms: input.get()?,
            version: input.get()?,
            cversion: input.get()?,
            aversion: input.get()?,
            ephemeral_owner: input.get()?,
            data_length: input.get()?,
            num_children: input.get()?,
            pzxid: input.get()?,
        })
    }
}

impl Record for WatchedEvent {
    const BYTES_MIN: usize = 2 * i32::BYTES_MIN + Blob::BYTES_MIN;

    fn put(&self, out: &mut Vec<u8>) {
        (self.happened as i32).put(out);
        SYNC_CONNECTED.put(out);
        self.path.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let happened = match input.get::<i32>()? {
            1 => Happened::Created,
            2 => Happened::Deleted,
            3 => Happened::Data,
            4 => Happened::Children,
            _ => return Err(Malformed),
        };
        // A server in read-only mode may report another state; the client knows the mode from the
        // `ConnectResponse`.
        let _state: i32 = input.get()?;
        Ok(Self { happened, path: input.get()? })
    }
}
