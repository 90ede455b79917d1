//! Server that a tool connects to: common flags of all tools that connect to one.

use clap::Args;
use client::{Client, Options, Tls};
use std::path::{Path, PathBuf};

/// URL used by default.
const DEFAULT_URL: &str = "redis://127.0.0.1:6379";
/// Environment variable that overrides it.
const URL_VARIABLE: &str = "CLARET_URL";

/// A server, and the credentials for it.
#[derive(Args, Clone, Debug, Default)]
pub struct Target {
    /// The server, or any machine of the cluster: redis://[user[:password]@]host:port, or rediss:// for
    /// TLS [default: the variable CLARET_URL, or redis://127.0.0.1:6379].
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// File whose first line is the password, as an alternative to a password in the URL.
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Authorities that may have signed the server's certificate (PEM) [default: those that the
    /// system trusts].
    #[arg(long, global = true, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Certificate to show to the server (PEM); requires --key.
    #[arg(long, global = true, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key that belongs to --cert (PEM).
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name in the server's certificate, if it differs from the host of the URL.
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,
}

type Result<T> = std::result::Result<T, String>;

impl Target {
    /// URL, without a password that is in a file.
    pub fn url(&self) -> String {
        let said = self.url.clone().or_else(|| std::env::var(URL_VARIABLE).ok());
        said.filter(|url| !url.is_empty()).unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    /// Connects.
    ///
    /// # Errors
    /// The error names the server, without any password.
    pub async fn connect(&self) -> Result<Client> {
        self.connect_to(&self.url()).await
    }

    /// Connects to another machine of the same cluster, as the same user.
    ///
    /// # Errors
    /// See [`Target::connect`].
    pub async fn connect_at(&self, address: &str) -> Result<Client> {
        self.connect_to(&at(&self.url(), address)).await
    }

    async fn connect_to(&self, url: &str) -> Result<Client> {
        let shown = without_password(url);
        let secret = self.password_file.as_deref().map(first_line).transpose()?;
        let url =
            secret.map_or_else(|| Ok(url.to_owned()), |secret| with_password(url, &secret))?;
        let options = Options { tls: self.tls(), ..Options::default() };
        Client::connect_with(&url, options).await.map_err(|error| format!("{shown}: {error}"))
    }

    fn tls(&self) -> Tls {
        Tls {
            ca: self.cacert.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            server_name: self.tls_server_name.clone(),
        }
    }
}

/// Reads the first line of a file.
pub fn first_line(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(format!("{}: the first line is empty", path.display())),
    }
}

/// Scheme, user with password (empty if there is none) and the rest of a URL.
fn parts(url: &str) -> (&str, &str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(sign) => (scheme, &rest[..sign], &rest[sign + 1..]),
        None => (scheme, "", rest),
    }
}

/// Adds a password to a URL that must not have one already.
fn with_password(url: &str, secret: &str) -> Result<String> {
    let (scheme, login, rest) = parts(url);
    let (user, old) = login.split_once(':').unwrap_or((login, ""));
    if !old.is_empty() {
        return Err("the password is in the URL and in a file: remove it from the URL".to_owned());
    }
    let secret: String = secret.bytes().map(encoded).collect();
    Ok(format!("{scheme}://{user}:{secret}@{rest}"))
}

/// Percent-encodes a byte for a URL.
fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") }
}

/// URL without its password, for messages.
fn without_password(url: &str) -> String {
    let (scheme, login, rest) = parts(url);
    match login.split_once(':').map_or(login, |(user, _)| user) {
        "" => format!("{scheme}://{rest}"),
        user => format!("{scheme}://{user}@{rest}"),
    }
}

/// URL with another host and port. Machines announce their client addresses for connections without
/// TLS, so with TLS the port stays unchanged.
fn at(url: &str, address: &str) -> String {
    let (scheme, login, rest) = parts(url);
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port_of = |place: &str| {
        let colon = place.rfind(':').filter(|at| !place[*at..].contains(']'));
        colon.map(|at| place[at + 1..].to_owned())
    };
    let address = match (scheme.ends_with("ss") || scheme == "clarets", port_of(place)) {
        (true, Some(port)) => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            format!("{host}:{port}")
        }
        _ => address.to_owned(),
    };
    let sign = if login.is_empty() { "" } else { "@" };
    format!("{scheme}://{login}{sign}{address}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_stays_the_same_at_another_address() {
        assert_eq!(at("redis://h:1", "x:2"), "redis://x:2");
        assert_eq!(at("redis://me:p%40ss@h:1/0", "x:2"), "redis://me:p%40ss@x:2/0");
        assert_eq!(at("rediss://me@h:1/0", "x:2"), "rediss://me@x:1/0");
        assert_eq!(at("rediss://[::1]", "x:2"), "rediss://x:2");
    }

    #[test]
    fn a_password_comes_from_a_file_and_is_never_shown() {
        let with = |url| with_password(url, "p@s s");
        assert_eq!(with("redis://h:1").unwrap(), "redis://:p%40s%20s@h:1");
        assert_eq!(with("rediss://me@h:1/0").unwrap(), "rediss://me:p%40s%20s@h:1/0");
        assert!(with("redis://me:x@h:1").is_err());
        assert_eq!(without_password("redis://me:x@h:1"), "redis://me@h:1");
        assert_eq!(without_password("redis://:x@h:1"), "redis://h:1");
    }

    #[test]
    fn the_first_line_is_the_password() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("secret");
        std::fs::write(&path, "s3cret\nnote\n").unwrap();
        assert_eq!(first_line(&path).unwrap(), "s3cret");
        std::fs::write(&path, "\n").unwrap();
        assert!(first_line(&path).unwrap_err().contains("secret"));
    }
}
