//! The command's exit codes, as docs/CLI.md lists them.

use densite_tools::{Error, ErrorClass};

/// The exit code for an error of the library. 0 is success. 2 (usage) and 6 (the answer "no") come
/// from other places. An interrupted run ends with 130, as in shells.
pub(crate) fn exit_code(error: &Error) -> u8 {
    match error.class() {
        ErrorClass::Locked => 3,
        ErrorClass::NoSpace => 4,
        ErrorClass::Damaged => 5,
        ErrorClass::Interrupted => 130,
        _ => 1,
    }
}
