//! Settings of TLS between the machines of the cluster.

use super::ConfigError;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use std::path::PathBuf;

/// Settings of TLS between machines as given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerTlsSettings {
    /// Certificate chain of this machine, PEM.
    pub cert: Option<PathBuf>,
    /// Private key of this machine, PEM.
    pub key: Option<PathBuf>,
    /// Certificates of the authorities that issued the other machines' certificates, PEM.
    pub ca: Option<PathBuf>,
    /// Name in the other machines' certificates, if it is not the host of each machine's address.
    pub server_name: Option<String>,
}

impl PeerTlsSettings {
    /// Returns these settings, completed with those of `below`.
    pub fn over(self, below: Self) -> Self {
        Self {
            cert: self.cert.or(below.cert),
            key: self.key.or(below.key),
            ca: self.ca.or(below.ca),
            server_name: self.server_name.or(below.server_name),
        }
    }
}

/// TLS between the machines of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsOptions {
    /// Certificate chain of this machine, PEM.
    pub cert: PathBuf,
    /// Private key of this machine, PEM.
    pub key: PathBuf,
    /// Certificates of the authorities that issued the other machines' certificates, PEM.
    pub ca: PathBuf,
    /// Name in the other machines' certificates; if none is set, the host of each machine's
    /// address.
    pub server_name: Option<String>,
}

impl PeerTlsOptions {
    /// Checks the settings; `None` if there are none.
    ///
    /// # Errors
    /// Names the missing or wrong setting.
    pub fn resolve(settings: PeerTlsSettings) -> Result<Option<Self>, ConfigError> {
        if settings == PeerTlsSettings::default() {
            return Ok(None);
        }
        let PeerTlsSettings { cert, key, ca, server_name } = settings;
        let parts = [("cert", cert.is_none()), ("key", key.is_none()), ("ca", ca.is_none())];
        let missing: Vec<&str> =
            parts.iter().filter(|(_, missing)| *missing).map(|(name, _)| *name).collect();
        let (Some(cert), Some(key), Some(ca)) = (cert, key, ca) else {
            return Err(ConfigError::new(format!(
                "cluster.tls: there is no {}. TLS between machines needs three files: name them as \
                 cert, key and ca in [cluster.tls], or with --peer-tls-cert, --peer-tls-key and \
                 --peer-tls-ca; without all of them there is none",
                missing.join(" and no ")
            )));
        };
        if let Some(name) = &server_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            return Err(ConfigError::new(format!(
                "cluster.tls: server_name must be a DNS name or an IP address that is on the \
                 certificates of all machines, not '{name}'"
            )));
        }
        Ok(Some(Self { cert, key, ca, server_name }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::cluster::{ClusterOptions, ClusterSettings};
    use crate::config::{Durability, Settings};

    const FILE: &str = "[cluster]\nnode = 1\nnodes = { '1' = 'a:1', '2' = 'b:1' }\n\
                        [cluster.tls]\ncert = 'c'\nkey = 'k'\nca = 'a'\n";

    fn resolve(settings: ClusterSettings) -> Result<Option<PeerTlsOptions>, ConfigError> {
        ClusterOptions::resolve(settings, Durability::Always).map(|cluster| cluster.unwrap().tls)
    }

    fn file(text: &str) -> ClusterSettings {
        toml::from_str::<Settings>(text).unwrap().cluster
    }

    #[test]
    fn a_file_names_all_three_or_none() {
        let tls = resolve(file(FILE)).unwrap().unwrap();
        assert_eq!([tls.cert, tls.key, tls.ca], ["c", "k", "a"].map(PathBuf::from));
        assert_eq!(tls.server_name, None);
        assert_eq!(resolve(file(FILE.split("[cluster.tls]").next().unwrap())).unwrap(), None);
        for (line, name) in [("cert = 'c'\n", "no cert"), ("key = 'k'\n", "no key")] {
            let error = resolve(file(&FILE.replace(line, ""))).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--peer-tls-ca"), "{error}");
        }
        let only = FILE.replace("cert = 'c'\nkey = 'k'\nca = 'a'", "server_name = 'x'");
        let error = resolve(file(&only)).unwrap_err().to_string();
        assert!(error.contains("no cert and no key and no ca"), "{error}");
        let unknown = toml::from_str::<Settings>(&format!("{FILE}port = 1\n"));
        assert!(unknown.unwrap_err().to_string().contains("port"));
    }

    #[test]
    fn flags_go_over_the_file() {
        let tls = PeerTlsSettings { key: Some("other".into()), ..PeerTlsSettings::default() };
        let flags = ClusterSettings { tls, ..ClusterSettings::default() };
        let tls = resolve(flags.over(file(FILE))).unwrap().unwrap();
        assert_eq!([tls.cert, tls.key, tls.ca], ["c", "other", "a"].map(PathBuf::from));
    }

    #[test]
    fn a_name_that_cannot_be_on_a_certificate_is_refused() {
        for (name, fits) in [("claret.example", true), ("10.0.0.1", true), ("a b", false)] {
            let resolved = resolve(file(&format!("{FILE}server_name = '{name}'\n")));
            assert_eq!(resolved.is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn tls_alone_makes_no_cluster() {
        let settings = file("[cluster.tls]\ncert = 'c'\nkey = 'k'\nca = 'a'\n");
        let error = ClusterOptions::resolve(settings, Durability::Always).unwrap_err();
        assert!(error.to_string().contains("--cluster"), "{error}");
    }
}
