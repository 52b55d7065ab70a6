//! A panic is a fault of the command's: it ends with one sentence and a code of its own, and what was begun is undone on the way.

use crate::failure::{Failure, Outcome};
use densite_disk::sync::Mutex;
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exit code of a fault of the command's own.
const INTERNAL: u8 = 7;

/// The last panic and its place in the source.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Panics are noted rather than printed: those that are caught nearer by, as of a reader that meets a damaged file, are no fault of the command's.
pub(crate) fn keep_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        // One line, whatever the message has.
        let said = panic.to_string();
        *LAST.lock() = said.split_whitespace().collect::<Vec<_>>().join(" ");
    }));
}

/// Runs a verb; a panic becomes its failure.
pub(crate) fn caught(run: impl FnOnce() -> Outcome) -> Outcome {
    // The program ends: nothing of the verb is looked at again.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let text = format!(
            "internal error: {}; what was begun was undone; please report this sentence, and what was done",
            LAST.lock()
        );
        Err(Failure::Other("internal", INTERNAL, text, json!({})))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_sentence_with_its_place() {
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
