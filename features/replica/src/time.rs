//! Moments for people.

use humantime::format_rfc3339_millis;
use std::time::{Duration, SystemTime};

/// The end of the year 9999, the last one of RFC 3339, in milliseconds since 1970.
const END: u64 = 253_402_300_800_000;

/// A moment, in milliseconds since 1970, as text in UTC: `2026-11-27T12:00:00.250Z`.
#[must_use]
pub fn time_text(time_ms: u64) -> String {
    match time_ms < END {
        true => {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(time_ms);
            format_rfc3339_millis(time).to_string()
        }
        false => format!("{time_ms} ms after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_text_in_utc() {
        assert_eq!(time_text(1_795_780_800_250), "2026-11-27T12:00:00.250Z");
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_text(END - 1), "9999-12-31T23:59:59.999Z");
        assert_eq!(time_text(END), format!("{END} ms after 1970"));
        assert_eq!(time_text(u64::MAX), format!("{} ms after 1970", u64::MAX));
    }
}
