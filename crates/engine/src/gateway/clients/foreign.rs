//! Requests of another protocol.
//!
//! A page in a browser, or a server that fetches what it is told to, can send a request of HTTP to any
//! port that it reaches, with a body that the attacker chooses. The lines of its head are no commands,
//! but those of its body can be: so the connection ends at the first line that is HTTP.

use adt::Args;

/// Methods of HTTP that are no commands. `GET` is both, and known by what follows it.
pub const HTTP_METHODS: [&str; 9] =
    ["POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PRI"];

/// Whether words that call no command are a line of HTTP.
pub(in crate::gateway) fn is_http(args: &Args<'_>) -> bool {
    let first = args.get(0).unwrap_or_default();
    let header = first.len() > 1
        && (first.ends_with(b":")
            || first.get(..5).is_some_and(|w| w.eq_ignore_ascii_case(b"host:")));
    let requested = args.len() == 3 && args.get(2).is_some_and(|word| word.starts_with(b"HTTP/"));
    header || requested || HTTP_METHODS.iter().any(|method| args.is(0, method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::ArgBuf;

    #[test]
    fn lines_of_http_are_told_from_commands_that_are_not_there() {
        let foreign = |line: &str| is_http(&ArgBuf::of(line.split(' ')).args());
        for line in [
            "POST / HTTP/1.1",
            "post",
            "GET / HTTP/1.1",
            "PROPFIND /a HTTP/1.0",
            "PRI * HTTP/2.0",
            "Host: localhost:6379",
            "HOST:localhost",
            "Content-Length: 5",
        ] {
            assert!(foreign(line), "{line}");
        }
        for line in ["GET a b", "GET HTTP/1.1", "nosuch a b", ":", "hostile", "POSTS", "a:b c"] {
            assert!(!foreign(line), "{line}");
        }
    }
}
