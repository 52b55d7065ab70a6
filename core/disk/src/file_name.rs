//! Names of files in a directory.

use crate::error::{Error, ErrorKind, Op, Result};
use rustix::io::Errno;

/// Refuses a name that is not a single path component.
///
/// # Errors
/// [`ErrorKind::Io`] with `EINVAL`.
pub fn check_name(name: &str, op: Op) -> Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(Error {
            kind: ErrorKind::Io,
            op,
            code: Some(Errno::INVAL.raw_os_error()),
        });
    }
    Ok(())
}
