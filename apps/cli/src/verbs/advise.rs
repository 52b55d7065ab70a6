//! `densite advise DB`: what to do with a database, in five lines, with the figures of `info` and
//! an estimate by a sample.

use crate::advice::{self, Line};
use crate::args::{Common, DbArg};
use crate::ask::consent;
use crate::exit::exit_code;
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::shown;
use crate::{out, sqlite};
use densite_tools::{Error, Form};
use serde_json::{Value, json};

pub(crate) fn run(common: Common, args: &DbArg) -> Outcome {
    let api = sqlite::api()?;
    let mut bar = Bar::interruptible(common)?;
    let mut info = densite_tools::info(api, &args.db)?;
    if info.remote.is_some() {
        let path = shown::path(&info.path);
        let size = out::bytes(info.stored_bytes);
        consent(
            common,
            &format!(
                "{path}: advise reads all tables and indexes for its figures, which can take thousands of requests and most of {size}. Continue?"
            ),
        )?;
        info = densite_tools::info_with_objects(api, &args.db)?;
    }
    let estimate = match info.form {
        Form::Plain => Some(densite_tools::estimate(api, &args.db, &mut bar)),
        Form::Compressed | Form::Empty => None,
    };
    bar.rest();
    let estimate = match estimate {
        Some(Err(e @ Error::Interrupted { .. })) => return Err(e.into()),
        Some(Err(e)) if exit_code(&e) == 5 => return Err(e.into()),
        other => other,
    };
    let lines = advice::lines(&info, estimate.as_ref());
    let advice = |line: &Line| json!({ "about": line.about, "text": line.text, "command": line.command, "saves_bytes": line.saves });
    let object = json!({
        "verb": "advise",
        "path": info.path.to_string_lossy(),
        "form": densite_tools::json::form(info.form),
        "stored_bytes": info.stored_bytes,
        "compressed_bytes": estimate.and_then(Result::ok).map(|estimate| estimate.compressed_bytes),
        "advice": lines.iter().map(advice).collect::<Vec<Value>>(),
    });
    let text: String = lines
        .iter()
        .map(|line| {
            let mark = if line.command.is_some() { "→" } else { "·" };
            let command = line.command.as_ref();
            let command = command.map_or(String::new(), |c| format!(": {}", shown::shown(c)));
            format!("{mark} {}{command}\n", shown::shown(&line.text))
        })
        .collect();
    out::result(common, &object, &text)?;
    Ok(0)
}
