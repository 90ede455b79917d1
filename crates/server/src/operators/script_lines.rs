//! Lines that scripts write to the operator's log.

use engine::limits::{SCRIPT_LINE_BYTES_MAX, SCRIPT_LINES_PER_S};
use engine::now::Now;
use engine::script::LogLevel;

/// Lines of the present second.
#[derive(Debug, Default)]
pub struct ScriptLines {
    second: u64,
    lines: u64,
    left_out: u64,
}

impl ScriptLines {
    /// Counts a line. Tells how many were left out before it, if it is to be written.
    fn count(&mut self, now: Now) -> Option<u64> {
        let second = now.mono_us / 1_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        if self.lines > SCRIPT_LINES_PER_S {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }

    /// Writes a line to the log. Scripts are text of clients: their lines are short and few.
    pub fn write(&mut self, now: Now, level: LogLevel, text: &[u8]) {
        let Some(left_out) = self.count(now) else { return };
        if left_out > 0 {
            tracing::warn!("{left_out} lines of scripts were left out: there were too many");
        }
        let text = String::from_utf8_lossy(&text[..text.len().min(SCRIPT_LINE_BYTES_MAX)]);
        let text = text.escape_debug();
        match level {
            LogLevel::Debug => tracing::trace!("script: {text}"),
            LogLevel::Verbose => tracing::debug!("script: {text}"),
            LogLevel::Notice => tracing::info!("script: {text}"),
            LogLevel::Warning => tracing::warn!("script: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_lines_are_left_out_and_counted() {
        let mut lines = ScriptLines::default();
        let at = |mono_us| Now { wall_us: 0, mono_us };
        let written = (0..SCRIPT_LINES_PER_S + 3).filter_map(|_| lines.count(at(5))).count();
        assert_eq!(written as u64, SCRIPT_LINES_PER_S);
        assert_eq!((lines.count(at(1_000_000)), lines.count(at(1_000_001))), (Some(3), Some(0)));
    }
}
