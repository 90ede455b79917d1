//! Durations in settings.

use engine::gateway::Patience;
use engine::limits::TRANSACTION_TIMEOUT_MS_MAX;
use serde::Deserialize;
use std::str::FromStr;

/// Duration, written as `500ms`, `5s`, `2m`, or a number of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Milliseconds.
    pub ms: u64,
}

impl FromStr for Period {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor = match &text[digits.len()..] {
            "" | "ms" => Some(1),
            "s" => Some(1000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            _ => None,
        };
        let number = digits.trim().parse::<u64>().ok();
        let ms = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
        ms.map(|ms| Self { ms })
            .ok_or_else(|| format!("'{text}' is not a duration such as 500ms, 5s or 2m"))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(ms) => Ok(Self { ms }),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Limits on the time for which transactions may keep others waiting, from the settings.
pub(super) fn patience(idle: Option<Period>, lasts: Option<Period>) -> Result<Patience, String> {
    let of = |name: &str, said: Option<Period>, usual_us: u64| match said {
        Some(Period { ms }) if ms > TRANSACTION_TIMEOUT_MS_MAX => {
            Err(format!("{name} must be at most {TRANSACTION_TIMEOUT_MS_MAX}ms, a day, not {ms}ms"))
        }
        Some(Period { ms }) => Ok(ms * 1000),
        None => Ok(usual_us),
    };
    let usual = Patience::default();
    Ok(Patience {
        idle_us: of("transaction_idle_timeout", idle, usual.idle_us)?,
        lasts_us: of("transaction_timeout", lasts, usual.lasts_us)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_nonsense_is_not() {
        for (text, ms) in
            [("0", 0), ("1500", 1500), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(text.parse(), Ok(Period { ms }), "{text}");
        }
        for text in ["", "s", "-1s", "5 days", "1.5s", "99999999999999999999", "9999999999999999h"]
        {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_transaction_can_be_let_wait_for_a_day_at_most() {
        let period = |ms| Some(Period { ms });
        let of = |idle, lasts| patience(idle, lasts).map(|p| (p.idle_us, p.lasts_us));
        assert_eq!(of(None, None), Ok((5_000_000, 60_000_000)));
        assert_eq!(of(period(0), period(86_400_000)), Ok((0, 86_400_000_000)));
        assert!(of(period(86_400_001), None).is_err_and(|text| text.contains("idle")));
    }
}
