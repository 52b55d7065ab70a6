//! Asking a user before something is replaced.

use crate::args::Common;
use crate::failure::Failure;
use crate::shown::shown;
use serde_json::json;
use std::io::{self, IsTerminal, Write};

/// Goes on when the user says yes, or said so beforehand.
pub(crate) fn consent(common: Common, question: &str) -> Result<(), Failure> {
    if common.yes {
        return Ok(());
    }
    let refused = |text: &str| Err(Failure::Other("declined", 6, text.to_string(), json!({})));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return refused(
            "nobody can be asked, for there is no terminal; nothing was done, give --yes to go on",
        );
    }
    let mut err = io::stderr().lock();
    write!(err, "{} [y/N] ", shown(question))?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => refused("as you wish; nothing was done"),
    }
}
