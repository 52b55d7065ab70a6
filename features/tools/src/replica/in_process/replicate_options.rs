//! The options of `densite_replicate`: text such as `interval=1,retain=48`.

use crate::error::{Error, Result};
use crate::replica::ReplicateOptions;
use std::time::Duration;

/// How a program ships.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    pub(super) interval: Duration,
    pub(super) replicate: ReplicateOptions,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            interval: Duration::from_secs(1),
            replicate: ReplicateOptions::default(),
        }
    }
}

impl Options {
    /// Reads the text of options.
    ///
    /// # Errors
    /// [`Error::Setting`] with the option and what it takes.
    pub(super) fn parse(text: &str) -> Result<Options> {
        let mut options = Options::default();
        for option in text.split(',').map(str::trim).filter(|o| !o.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let (name, value) = (name.trim(), value.trim());
            let hours = || number(name, value, 1.0, 100_000.0, "hours", 3600.0);
            match name {
                "interval" => {
                    options.interval = number(name, value, 0.1, 86_400.0, "seconds", 1.0)?;
                }
                "retain" => options.replicate.retain = hours()?,
                "base_every" => options.replicate.base_every = hours()?,
                "takeover" => {
                    options.replicate.takeover = match value {
                        "0" => false,
                        "1" => true,
                        _ => {
                            return Err(Error::Setting(format!(
                                "densite_replicate: takeover={value}: use takeover=0 or takeover=1"
                            )));
                        }
                    }
                }
                _ => {
                    return Err(Error::Setting(format!(
                        "densite_replicate: the option {name:?} is not known; use interval, retain, base_every or takeover, as in 'interval=1,retain=48'"
                    )));
                }
            }
        }
        Ok(options)
    }
}

fn number(
    name: &str,
    value: &str,
    least: f64,
    most: f64,
    unit: &str,
    seconds: f64,
) -> Result<Duration> {
    let number = value.parse::<f64>().ok();
    let number = number.filter(|n| (least..=most).contains(n));
    number
        .map(|n| Duration::from_secs_f64(n * seconds))
        .ok_or_else(|| {
            Error::Setting(format!(
                "densite_replicate: {name}={value}: use a number of {unit} from {least} to {most}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_are_refused_with_their_name() {
        assert_eq!(Options::parse(" ").ok(), Some(Options::default()));
        let options = Options::parse("interval=0.5, retain=48,base_every=2,takeover=1");
        let options = options.expect("options");
        assert_eq!(options.interval, Duration::from_millis(500));
        assert_eq!(options.replicate.retain, Duration::from_secs(48 * 3600));
        assert_eq!(options.replicate.base_every, Duration::from_secs(7200));
        assert!(options.replicate.takeover);
        for (text, says) in [
            ("interval=0", "seconds from 0.1 to 86400"),
            ("interval", "interval=: use"),
            ("retain=NaN", "hours from 1 to 100000"),
            ("takeover=yes", "takeover=yes"),
            ("url=x", "\"url\""),
        ] {
            let error = Options::parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
