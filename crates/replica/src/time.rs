//! Moments for people.

use chrono::{DateTime, SecondsFormat};

/// A moment, in milliseconds since 1970, as text in UTC: `2026-11-27T12:00:00.250Z`.
#[must_use]
pub fn time_text(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok();
    time.and_then(DateTime::from_timestamp_millis).map_or_else(
        || format!("{time_ms} ms after 1970"),
        |time| time.to_rfc3339_opts(SecondsFormat::Millis, true),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_text_in_utc() {
        assert_eq!(time_text(1_795_780_800_250), "2026-11-27T12:00:00.250Z");
        assert_eq!(time_text(u64::MAX), format!("{} ms after 1970", u64::MAX));
    }
}
