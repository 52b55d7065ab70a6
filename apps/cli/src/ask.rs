//! Asks the user before something is replaced.

use crate::args::Common;
use crate::failure::Failure;
use crate::shown::shown;
use serde_json::json;
use std::io::{self, IsTerminal, Write};

/// Succeeds if the user answers yes or gave `--yes`.
pub(crate) fn consent(common: Common, question: &str) -> Result<(), Failure> {
    if common.yes {
        return Ok(());
    }
    let refused = |text: &str| Err(Failure::Other("declined", 6, text.to_string(), json!({})));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return refused(&format!(
            "{} cannot ask for confirmation without a terminal; nothing was done; give --yes to continue",
            shown(question)
        ));
    }
    let mut err = io::stderr().lock();
    write!(err, "{} [y/N] ", shown(question))?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => refused("not confirmed; nothing was done"),
    }
}
