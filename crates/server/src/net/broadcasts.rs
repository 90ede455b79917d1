//! Broadcasts on a connection with another machine. Their number depends on publishers alone, and the same
//! connection carries the logs: so only a few bytes of them are under way at a time, the next ones are sent
//! when the other machine has taken those, and all other messages go ahead of what waits.

use engine::limits::{PEER_BROADCASTS_BYTES_MAX, PEER_BROADCASTS_UNDER_WAY};
use std::collections::VecDeque;

/// Broadcasts of one connection, in both directions.
#[derive(Default)]
pub(crate) struct Broadcasts {
    /// Frames that wait to be sent.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Bytes that were sent, and of which the other machine has not said that it has taken them.
    under_way: usize,
    /// Bytes that this machine has taken, and has not said so.
    taken: usize,
}

impl Broadcasts {
    /// Adds a frame, unless too many bytes are waiting. Returns whether it was added.
    pub fn push(&mut self, frame: Vec<u8>) -> bool {
        let fits = self.waiting_bytes + frame.len() <= PEER_BROADCASTS_BYTES_MAX;
        if fits {
            self.waiting_bytes += frame.len();
            self.waiting.push_back(frame);
        }
        fits
    }

    /// Appends the frames that may be sent now to the output.
    pub fn release(&mut self, output: &mut Vec<u8>) {
        while self.under_way < PEER_BROADCASTS_UNDER_WAY
            && let Some(frame) = self.waiting.pop_front()
        {
            self.waiting_bytes -= frame.len();
            self.under_way += frame.len();
            output.extend_from_slice(&frame);
        }
    }

    /// Notes that the other machine has taken bytes.
    pub fn arrived(&mut self, bytes: u32) {
        self.under_way = self.under_way.saturating_sub(bytes as usize);
    }

    /// Notes that a frame of the other machine was taken.
    pub fn took(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Number of bytes that the other machine is to be told of, if there are any.
    pub fn untold(&mut self) -> Option<u32> {
        let taken = std::mem::take(&mut self.taken);
        (taken > 0).then(|| u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Number of broadcasts that wait.
    pub fn count(&self) -> u64 {
        self.waiting.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_are_under_way_until_the_other_machine_has_taken_them() {
        let (mut ours, mut theirs) = (Broadcasts::default(), Broadcasts::default());
        let frame = PEER_BROADCASTS_UNDER_WAY / 4;
        for number in 0..10 {
            assert!(ours.push(vec![number; frame]));
        }
        let mut output = Vec::new();
        ours.release(&mut output);
        assert_eq!(output.len(), 4 * frame, "the others wait");
        ours.release(&mut output);
        assert_eq!(output.len(), 4 * frame);
        assert_eq!((ours.count(), ours.bytes()), (6, 6 * frame));
        theirs.took(frame);
        theirs.took(frame);
        ours.arrived(theirs.untold().unwrap());
        assert_eq!(theirs.untold(), None);
        ours.release(&mut output);
        assert_eq!(output.len(), 6 * frame);
        let numbers: Vec<u8> = output.chunks(frame).map(|chunk| chunk[0]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut broadcasts = Broadcasts::default();
        let frame = PEER_BROADCASTS_BYTES_MAX / 2;
        assert!(broadcasts.push(vec![0; frame]) && broadcasts.push(vec![0; frame]));
        assert!(!broadcasts.push(vec![0; 1]));
        broadcasts.release(&mut Vec::new());
        assert!(broadcasts.push(vec![0; 1]), "one frame may be longer than what is under way else");
        assert_eq!(broadcasts.count(), 2);
    }
}
