//! Ranges of settings, the same as those of URI parameters.

use crate::{Error, Result};

/// The greatest number of threads; a greater one is surely a mistake.
const THREADS_MAX: usize = 256;
/// 1 TiB.
const CACHE_MAX_MIB: usize = 1 << 20;

fn wrong(name: &str, value: impl std::fmt::Display, allowed: &str) -> Error {
    Error::Setting(format!("{name} is {value}; use {allowed}"))
}

/// A zstd level.
pub(crate) fn level(level: i32) -> Result<i32> {
    match (-7..=22).contains(&level) {
        true => Ok(level),
        false => Err(wrong("level", level, "a number from -7 to 22")),
    }
}

/// A number of background threads.
pub(crate) fn threads(threads: usize) -> Result<usize> {
    match threads <= THREADS_MAX {
        true => Ok(threads),
        false => Err(wrong(
            "threads",
            threads,
            &format!("a number from 0 to {THREADS_MAX}"),
        )),
    }
}

/// The size of a cache in MiB.
pub(crate) fn cache_mib(mib: usize) -> Result<usize> {
    match mib <= CACHE_MAX_MIB {
        true => Ok(mib),
        false => Err(wrong(
            "decoded_cache_mib",
            mib,
            &format!("a number of MiB from 0 to {CACHE_MAX_MIB}"),
        )),
    }
}

/// A page size in bytes.
pub(crate) fn page_size(bytes: u32) -> Result<u32> {
    match bytes.is_power_of_two() && (512..=65_536).contains(&bytes) {
        true => Ok(bytes),
        false => Err(wrong(
            "page_size",
            bytes,
            "a power of two from 512 to 65536",
        )),
    }
}
