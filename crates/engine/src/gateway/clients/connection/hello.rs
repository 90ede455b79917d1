//! `HELLO`, `AUTH` and names of clients: the words, and the reply to `HELLO`.

use adt::{Args, Blob, ErrorReply, Reply};
use std::fmt;

/// Version of Redis whose behaviour clients may expect. Clients compare it to choose features, so all
/// commands of that version exist here.
pub const REDIS_VERSION: &str = "7.4.0";
/// Longest name or library attribute of a client, in bytes.
pub const CLIENT_NAME_BYTES_MAX: usize = 256;

/// A password that never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Blob);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A user and the password that the client gave for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user.
    pub user: Blob,
    /// Password.
    pub password: Secret,
}

impl Credentials {
    /// The words of `AUTH [username] password`.
    pub fn parse(args: &Args<'_>) -> Result<Self, ErrorReply> {
        let (user, password) = match args.len() {
            2 => (crate::gateway::acl::DEFAULT_USER.into(), args.blob(1)?),
            3 => (args.blob(1)?, args.blob(2)?),
            _ => return Err(ErrorReply::syntax()),
        };
        Ok(Self { user, password: Secret(password) })
    }
}

/// Content of a `HELLO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// RESP version, 2 or 3; `None` leaves it as it is.
    pub protocol: Option<u8>,
    /// Authenticate first.
    pub credentials: Option<Credentials>,
    /// Set the connection's name.
    pub name: Option<Blob>,
}

impl Hello {
    /// Parses `HELLO [protover [AUTH username password] [SETNAME clientname]]`.
    pub fn parse(args: &Args<'_>) -> Result<Self, ErrorReply> {
        let mut hello = Self::default();
        if args.len() == 1 {
            return Ok(hello);
        }
        hello.protocol = Some(match args.int(1) {
            Ok(version @ 2..=3) => version as u8,
            Ok(_) => return Err(ErrorReply::new("NOPROTO", "unsupported protocol version")),
            Err(_) => {
                let text = "Protocol version is not an integer or out of range";
                return Err(ErrorReply::err(text));
            }
        });
        let mut i = 2;
        while i < args.len() {
            if args.is(i, "AUTH") && i + 2 < args.len() {
                let password = Secret(args.blob(i + 2)?);
                hello.credentials = Some(Credentials { user: args.blob(i + 1)?, password });
                i += 3;
            } else if args.is(i, "SETNAME") && i + 1 < args.len() {
                hello.name = Some(client_name(args.get(i + 1).unwrap_or_default())?);
                i += 2;
            } else {
                let word = args.get(i).unwrap_or_default().escape_ascii();
                return Err(ErrorReply::err(format!("Syntax error in HELLO option '{word}'")));
            }
        }
        Ok(hello)
    }
}

/// The error of a `HELLO` that comes before authentication and brings no credentials.
pub fn unauthenticated() -> ErrorReply {
    ErrorReply::new(
        "NOAUTH",
        "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
         AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
         protocol version at the same time",
    )
}

/// Checks a name for `CLIENT SETNAME` and `HELLO SETNAME`: printable characters without spaces,
/// so that the lines of `CLIENT LIST` stay readable by programs. The empty name removes the name.
pub fn client_name(name: &[u8]) -> Result<Blob, ErrorReply> {
    printable(name, "Client names cannot contain spaces, newlines or special characters.")
}

/// Checks a value for `CLIENT SETINFO LIB-NAME` or `LIB-VER`; `attribute` is for the error text.
pub fn library_attribute(attribute: &str, value: &[u8]) -> Result<Blob, ErrorReply> {
    let text = format!("{attribute} cannot contain spaces, newlines or special characters.");
    printable(value, &text)
}

fn printable(name: &[u8], error: &str) -> Result<Blob, ErrorReply> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return Err(ErrorReply::err(format!(
            "a client name or attribute has at most {CLIENT_NAME_BYTES_MAX} bytes"
        )));
    }
    if name.iter().all(|b| (b'!'..=b'~').contains(b)) {
        Ok(Blob::new(name))
    } else {
        Err(ErrorReply::err(error.to_owned()))
    }
}

/// The map that greets a client of session `id` that now speaks RESP `protocol`. `version` is the
/// product's own.
pub fn greeting(id: u64, protocol: u8, version: &str) -> Reply {
    let text = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    let number = |name: &str, value: i64| (Reply::bulk(name), Reply::Int(value));
    Reply::Map(vec![
        text("server", "redis"),
        text("version", REDIS_VERSION),
        number("proto", i64::from(protocol)),
        number("id", id as i64),
        text("mode", "standalone"),
        text("role", "master"),
        (Reply::bulk("modules"), Reply::Array(Vec::new())),
        text("claret_version", version),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::ArgBuf;

    fn hello(line: &str) -> Result<Hello, String> {
        Hello::parse(&ArgBuf::of(line.split(' ')).args()).map_err(|e| e.to_string())
    }

    #[test]
    fn all_forms_of_hello() {
        assert_eq!(hello("HELLO"), Ok(Hello::default()));
        assert_eq!(hello("hello 3").unwrap().protocol, Some(3));
        let full = hello("HELLO 2 setname web AUTH ann pass").unwrap();
        assert_eq!(full.protocol, Some(2));
        assert_eq!(full.name, Some("web".into()));
        let credentials = full.credentials.clone().unwrap();
        assert_eq!((credentials.user, credentials.password.0), ("ann".into(), "pass".into()));
        assert!(!format!("{full:?}").contains("pass\""));
        for (line, error) in [
            ("HELLO 1", "NOPROTO unsupported protocol version"),
            ("HELLO 4", "NOPROTO unsupported protocol version"),
            ("HELLO x", "ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 AUTH ann", "ERR Syntax error in HELLO option 'AUTH'"),
            ("HELLO 3 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
            ("HELLO 3 nonsense", "ERR Syntax error in HELLO option 'nonsense'"),
        ] {
            assert_eq!(hello(line).unwrap_err(), error, "{line}");
        }
    }

    #[test]
    fn auth_has_one_or_two_words() {
        let parse = |line: &str| Credentials::parse(&ArgBuf::of(line.split(' ')).args());
        assert_eq!(parse("AUTH p").unwrap().user, "default".into());
        assert_eq!(parse("AUTH ann p").unwrap().user, "ann".into());
        assert_eq!(parse("AUTH a b c").unwrap_err().to_string(), "ERR syntax error");
    }

    #[test]
    fn names_stay_on_one_line_and_in_one_word() {
        assert_eq!(client_name(b"web-1"), Ok("web-1".into()));
        assert_eq!(client_name(b""), Ok("".into()));
        for wrong in [&b"a b"[..], b"a\nb", b"a\0", b"\xff"] {
            assert!(client_name(wrong).unwrap_err().text().contains("cannot contain"));
        }
        assert!(client_name(&[b'a'; CLIENT_NAME_BYTES_MAX]).is_ok());
        let error = client_name(&[b'a'; CLIENT_NAME_BYTES_MAX + 1]).unwrap_err();
        assert!(error.text().contains("256"));
        assert!(library_attribute("lib-name", b"a b").unwrap_err().text().starts_with("lib-name"));
    }

    #[test]
    fn the_greeting_tells_protocol_and_identity() {
        let Reply::Map(fields) = greeting(7, 3, "1.2.3") else { panic!("a map") };
        let get = |name: &str| fields.iter().find(|f| f.0 == Reply::bulk(name)).map(|f| &f.1);
        assert_eq!(get("proto"), Some(&Reply::Int(3)));
        assert_eq!(get("id"), Some(&Reply::Int(7)));
        assert_eq!(get("mode"), Some(&Reply::bulk("standalone")));
        assert_eq!(get("claret_version"), Some(&Reply::bulk("1.2.3")));
    }
}
