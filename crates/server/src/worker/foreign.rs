//! Detection of clients that send HTTP: their connections are closed and logged.

use super::Worker;
use engine::gateway::HTTP_METHODS;
use engine::limits::FOREIGN_WARN_US;
use engine::now::Now;

/// Whether a client's first bytes are an HTTP request.
pub fn is_http(bytes: &[u8]) -> bool {
    let mut methods = HTTP_METHODS.iter().chain(&["GET"]);
    methods.any(|method| {
        bytes.strip_prefix(method.as_bytes()).is_some_and(|rest| rest.starts_with(b" "))
    })
}

impl Worker {
    /// Logs a client that sends HTTP; rarely, since strangers can connect as often as they like.
    pub(super) fn warn_of_http(&mut self, now: Now, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        if now.mono_us < self.warns_us {
            return;
        }
        self.warns_us = now.mono_us + FOREIGN_WARN_US;
        tracing::warn!(
            "closed a connection of {} that sends HTTP: perhaps an attack by way of a browser or of \
             another server, that is to get commands to this one; further ones are not told of for a \
             minute",
            connection.peer
        );
    }

    /// Checks whether a client of the coordination service has sent HTTP.
    pub(super) fn look_for_http(&mut self, now: Now, slot: usize) {
        let dialogue = self.connections.get(slot).and_then(|c| c.dialogue.as_ref());
        if dialogue.is_some_and(|dialogue| dialogue.is_foreign()) {
            self.warn_of_http(now, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::jute::{FRAME_BYTES_MAX, FourLetterWord, next_frame};
    use wire::peer::decode_hello;

    #[test]
    fn an_http_request_is_no_frame_no_command_and_no_machine() {
        for method in HTTP_METHODS.into_iter().chain(["GET"]) {
            let request = format!("{method} / HTTP/1.1\r\n").into_bytes();
            assert!(is_http(&request) && FourLetterWord::of(&request).is_none());
            assert!(next_frame(&request, FRAME_BYTES_MAX).is_err(), "it ends the connection");
            assert!(decode_hello(&request).is_err(), "at the port for machines as well");
        }
        assert!(!is_http(b"ruok") && !is_http(&[0, 0, 0, 44]));
    }
}
