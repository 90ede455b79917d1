//! Warnings about failed connections between machines, with advice.
//!
//! The texts must not contain anything that changes from one attempt to the next, such as a time or
//! a port, so that the same problem is reported once in a while and not with every attempt.

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use std::io::{self, ErrorKind};

/// Warning about a connection with `whom` that was dropped; none if it is not worth a warning.
///
/// `encrypted` says whether this side used TLS, `input` is the part of the received data that was
/// not understood.
pub fn reason(whom: &str, encrypted: bool, input: &[u8], error: &io::Error) -> Option<String> {
    if !encrypted && begins_tls(input) {
        return Some(format!(
            "{whom} speaks TLS, and this machine does not: set up [cluster.tls] on all machines of \
             the cluster, or on none"
        ));
    }
    if let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>()) {
        return Some(of_tls(whom, error));
    }
    (error.kind() == ErrorKind::InvalidData).then(|| {
        format!(
            "{whom} does not use the protocol of this port, which is for machines: clients connect \
             to the other port"
        )
    })
}

/// Whether bytes are the beginning of a TLS record: an alert or a handshake, of version 3.x.
fn begins_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [21 | 22, 3, ..])
}

fn of_tls(whom: &str, error: &TlsError) -> String {
    match error {
        TlsError::InvalidMessage(_) => format!(
            "{whom} does not speak TLS, which the port for machines requires: set up [cluster.tls] \
             on all machines of the cluster; clients connect to the other port"
        ),
        TlsError::InvalidCertificate(error) => {
            format!("{whom} is rejected: {}", of_certificate(error))
        }
        TlsError::NoCertificatesPresented => format!(
            "{whom} is rejected: it shows no certificate, which every machine of the cluster must"
        ),
        TlsError::AlertReceived(alert) => of_alert(whom, *alert),
        other => format!("{whom} is rejected: TLS has failed: {other}"),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: make a new one, and send that machine SIGHUP".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: compare the clocks of both machines".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not signed by an authority in this machine's ca ([cluster.tls]): \
             make it one with the authority of the cluster"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "{error}: make it one with that name as subjectAltName, or set server_name in \
                 [cluster.tls] to a name that it has"
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is for something else: it needs both serverAuth and clientAuth as \
             extendedKeyUsage, or no extendedKeyUsage"
                .to_owned()
        }
        other => format!("its certificate cannot be verified: {other}"),
    }
}

fn of_alert(whom: &str, alert: AlertDescription) -> String {
    let advice = match alert {
        AlertDescription::CertificateExpired => {
            "the certificate of this machine is not valid now: make a new one, and send SIGHUP to \
             this server"
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "the certificate of this machine is not signed by an authority in the other's ca \
             ([cluster.tls]): make one with the authority of the cluster"
        }
        _ => "see the log of the other machine for the reason",
    };
    format!("{whom} rejects this machine ({alert:?}): {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_does_not_change_from_one_attempt_to_the_next() {
        let expired = |seconds: u64| {
            let at = |seconds| {
                rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(
                    seconds,
                ))
            };
            let context = CertificateError::ExpiredContext { time: at(seconds), not_after: at(1) };
            io::Error::new(ErrorKind::InvalidData, TlsError::InvalidCertificate(context))
        };
        let told = |error| reason("machine 2 at a:1", true, &[], &error).unwrap();
        assert_eq!(told(expired(5)), told(expired(6)));
        assert!(told(expired(5)).contains("machine 2 at a:1"));
    }

    #[test]
    fn a_lost_connection_is_no_news_unless_tls_came_over_it() {
        let lost = io::Error::from(ErrorKind::UnexpectedEof);
        assert_eq!(reason("x", true, &[], &lost), None);
        assert_eq!(reason("x", false, b"\x07", &lost), None);
        let alert = reason("x", false, b"\x15\x03\x03\x00\x02\x02\x32", &lost).unwrap();
        assert!(alert.contains("speaks TLS"), "{alert}");
        let strange = io::Error::from(ErrorKind::InvalidData);
        assert!(reason("x", false, b"PING\r\n", &strange).unwrap().contains("the other port"));
    }
}
