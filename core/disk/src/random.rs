//! Randomness of the operating system, for epochs, identities and temporary names.

use crate::{Error, ErrorKind, Op, Result};

/// Fills `buf` with random bytes that are suitable for keys.
///
/// # Errors
/// `Io` when the host has no source of randomness.
pub fn random_bytes(buf: &mut [u8]) -> Result<()> {
    getrandom::fill(buf).map_err(failed)
}

/// A random number, uniform over all 64-bit values.
///
/// # Errors
/// `Io` when the host has no source of randomness.
pub fn random_u64() -> Result<u64> {
    getrandom::u64().map_err(failed)
}

fn failed(e: getrandom::Error) -> Error {
    Error {
        kind: ErrorKind::Io,
        op: Op::Read,
        code: e.raw_os_error(),
    }
}
