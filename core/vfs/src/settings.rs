//! The settings in a database's URI.

use crate::parameter_names::check_parameters;
use densite_sqlite::FileName;
use densite_store::{CodecChoice, DecodedCache, Options, Readahead, Tuning};
use std::ffi::CStr;
use std::path::PathBuf;
use std::time::Duration;

/// The levels of zstd.
pub(crate) const LEVELS: std::ops::RangeInclusive<i32> = -7..=22;
/// The greatest number of threads; a greater one is surely a mistake.
pub(crate) const THREADS_MAX: usize = 256;
/// The largest allowed cache: 1 TiB, in MiB.
pub(crate) const CACHE_MAX_MIB: usize = 1 << 20;

/// The longest allowed wait for a remote file: a day, in seconds.
const TIMEOUT_MAX: f64 = 86_400.0;

/// How a remote database is read. What is not set has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RemoteSettings {
    /// `ca_file`: certificates in PEM that are trusted, too.
    pub(crate) ca_file: Option<PathBuf>,
    /// `timeout`: how long one read may take.
    pub(crate) timeout: Option<Duration>,
    /// `cache_dir`: the directory for blocks on the local disk.
    pub(crate) cache_dir: Option<PathBuf>,
    /// `cache_size`: the most bytes that the files there take.
    pub(crate) cache_bytes: Option<u64>,
}

/// The settings of one open database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// The store's settings.
    pub(crate) options: Options,
    /// `densite=off`: a new or empty file stays plain.
    pub(crate) keep_plain: bool,
    /// `maintain=off`: only `densite_maintain` reclaims space.
    pub(crate) maintain_off: bool,
    /// `nolock` or `immutable`: SQLite takes no locks on this file.
    pub(crate) unlocked: bool,
    /// For a remote database.
    pub(crate) remote: RemoteSettings,
}

impl Settings {
    /// Reads the parameters of a name that is opened through the VFS `vfs`.
    ///
    /// # Errors
    /// A sentence that names the parameter, its value and what is allowed.
    pub(crate) fn from_name(name: FileName<'_>, vfs: &str) -> Result<Settings, String> {
        check_parameters(name, vfs)?;
        let mut settings = Settings::default();
        let text = |key: &CStr| name.parameter(key).map(CStr::to_string_lossy);
        if let Some(value) = text(c"level") {
            settings.options.level = level(&value)?;
        }
        if let Some(value) = text(c"threads") {
            settings.options.threads = threads(&value)?;
        }
        if let Some(value) = text(c"decoded_cache") {
            settings.options.decoded_cache = decoded_cache(&value)?;
        }
        if let Some(value) = text(c"run_pages") {
            settings.options.run_pages = run_pages(&value)?;
        }
        if let Some(value) = text(c"codec") {
            settings.options.codec = codec(&value)?;
        }
        if let Some(value) = text(c"readahead") {
            settings.options.readahead = readahead(&value)?;
        }
        if let Some(value) = text(c"x_tuning") {
            // For tests: makes rare cases common. Not part of the interface.
            settings.options.tuning = tuning(&value)?;
        }
        if let Some(value) = text(c"maintain") {
            settings.maintain_off = !on_off("maintain", &value)?;
        }
        if let Some(value) = text(c"densite") {
            settings.keep_plain = !on_off("densite", &value)?;
        }
        settings.remote.ca_file = text(c"ca_file").map(|path| PathBuf::from(&*path));
        if let Some(value) = text(c"timeout") {
            settings.remote.timeout = Some(timeout(&value)?);
        }
        settings.remote.cache_dir = text(c"cache_dir").map(|path| PathBuf::from(&*path));
        if let Some(value) = text(c"cache_size") {
            settings.remote.cache_bytes = Some(cache_size(&value)?);
        }
        settings.unlocked = name.boolean(c"nolock", false) || name.boolean(c"immutable", false);
        Ok(settings)
    }
}

fn tuning(value: &str) -> Result<Tuning, String> {
    match value {
        "eager" => Ok(Tuning::eager()),
        _ => Err(format!("x_tuning={value} is not known: leave it out")),
    }
}

/// A zstd level.
pub(crate) fn level(value: &str) -> Result<i32, String> {
    let wrong = || format!("level={value}: use a whole number from -7 to 22");
    let level: i32 = value.trim().parse().map_err(|_| wrong())?;
    if LEVELS.contains(&level) {
        Ok(level)
    } else {
        Err(wrong())
    }
}

/// A number of background threads.
pub(crate) fn threads(value: &str) -> Result<usize, String> {
    number(value, THREADS_MAX)
        .ok_or_else(|| format!("threads={value}: use a whole number from 0 to {THREADS_MAX}"))
}

/// The size of the cache of decoded pages: `auto`, or a number of MiB.
pub(crate) fn decoded_cache(value: &str) -> Result<DecodedCache, String> {
    if value.trim() == "auto" {
        return Ok(DecodedCache::Auto);
    }
    let mib = number(value, CACHE_MAX_MIB);
    mib.map(|n| DecodedCache::Bytes(n << 20)).ok_or_else(|| {
        format!(
            "decoded_cache={value}: use auto or a whole number of MiB from 0 to {CACHE_MAX_MIB}"
        )
    })
}

/// The size of the cache of remote files on the local disk, in MiB. Returned in bytes.
fn cache_size(value: &str) -> Result<u64, String> {
    let mib = number(value, CACHE_MAX_MIB).filter(|n| *n > 0);
    mib.map(|n| (n as u64) << 20).ok_or_else(|| {
        format!("cache_size={value}: use a whole number of MiB from 1 to {CACHE_MAX_MIB}")
    })
}

/// A time in seconds.
fn timeout(value: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = value.trim().parse().ok();
    seconds
        .filter(|s| *s > 0.0 && *s <= TIMEOUT_MAX)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("timeout={value}: use seconds, above 0 and up to {TIMEOUT_MAX}"))
}

fn number(value: &str, max: usize) -> Option<usize> {
    value.trim().parse().ok().filter(|&n| n <= max)
}

fn run_pages(value: &str) -> Result<u32, String> {
    if value == "auto" {
        return Ok(0);
    }
    let parsed = value.trim().parse().ok();
    parsed
        .filter(|n: &u32| n.is_power_of_two() && *n <= 64)
        .ok_or_else(|| format!("run_pages={value}: use auto or a power of two from 1 to 64"))
}

fn codec(value: &str) -> Result<CodecChoice, String> {
    match value {
        "auto" => Ok(CodecChoice::Auto),
        "zstd" => Ok(CodecChoice::Zstd),
        "raw" => Ok(CodecChoice::Raw),
        "typed" => Ok(CodecChoice::Typed),
        _ => Err(format!("codec={value}: use auto, typed, zstd or raw")),
    }
}

fn readahead(value: &str) -> Result<Readahead, String> {
    match value {
        "auto" => Ok(Readahead::Auto),
        "on" => Ok(Readahead::On),
        "off" => Ok(Readahead::Off),
        _ => Err(format!("readahead={value}: use on, off or auto")),
    }
}

fn on_off(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{key}={value}: use on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_range_are_taken() {
        assert_eq!(level("-7"), Ok(-7));
        assert_eq!(level("22"), Ok(22));
        assert_eq!(threads("0"), Ok(0));
        assert_eq!(decoded_cache("64"), Ok(DecodedCache::Bytes(64 << 20)));
        assert_eq!(decoded_cache("auto"), Ok(DecodedCache::Auto));
        assert_eq!(run_pages("auto"), Ok(0));
        assert_eq!(run_pages("16"), Ok(16));
        assert_eq!(codec("raw"), Ok(CodecChoice::Raw));
        assert_eq!(on_off("densite", "off"), Ok(false));
        assert_eq!(timeout("0.5"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn other_values_are_refused_with_the_value_and_what_is_allowed() {
        for value in ["23", "-8", "three", "", "3.5"] {
            let error = level(value).expect_err("out of range");
            assert!(error.contains(&format!("level={value}")) && error.contains("-7 to 22"));
        }
        for error in [
            threads("-1").expect_err("negative"),
            threads("257").expect_err("too many"),
            decoded_cache("64MiB").map(|_| 0).expect_err("a unit"),
            run_pages("3")
                .map(|_| 0usize)
                .expect_err("not a power of two"),
        ] {
            assert!(error.contains("use "), "{error}");
        }
        assert_eq!(codec("typed"), Ok(CodecChoice::Typed));
        assert!(codec("lz4").is_err());
        assert!(readahead("maybe").is_err());
        assert!(on_off("maintain", "1").is_err());
        for value in ["0", "-1", "NaN", "inf", "1e9", "soon"] {
            assert!(timeout(value).is_err(), "{value}");
        }
    }
}
