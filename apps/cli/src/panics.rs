//! A panic is a bug of the command. It ends the command with one message and its own exit code, and
//! unwinding undoes all changes.

use crate::failure::{Failure, Outcome};
use densite_disk::sync::Mutex;
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exit code for a bug of the command.
const INTERNAL: u8 = 7;

/// The message of the last panic, with its place in the source.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Stores panics instead of printing them. Some are caught closer to their cause and are not bugs
/// of the command: the Parquet reader panics on damaged files.
pub(crate) fn keep_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        // Joins all lines of the message.
        let said = panic.to_string();
        *LAST.lock() = said.split_whitespace().collect::<Vec<_>>().join(" ");
    }));
}

/// Runs a verb; a panic becomes a failure.
pub(crate) fn caught(run: impl FnOnce() -> Outcome) -> Outcome {
    // The program ends after this, so the state of the verb is not used again.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let text = format!(
            "internal error: {}; all changes were undone; please report this message and what you did",
            LAST.lock()
        );
        Err(Failure::Other("internal", INTERNAL, text, json!({})))
    })
}

/// Held by each test that panics on purpose: the message of the last panic is one of the process.
#[cfg(test)]
pub(crate) static ON_PURPOSE: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_sentence_with_its_place() {
        let _alone = ON_PURPOSE.lock();
        keep_quiet();
        let done = caught(|| panic!("two\nlines"));
        let _ = std::panic::take_hook();
        let Err(Failure::Other("internal", INTERNAL, text, _)) = done else {
            panic!("another end: {done:?}");
        };
        assert!(text.contains("src/panics.rs"), "{text}");
        assert!(text.contains("two lines"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
