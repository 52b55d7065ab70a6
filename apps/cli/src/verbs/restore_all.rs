//! `densite restore URL DIRECTORY`: all replicas right below a URL.

use super::restored::{line, notes, object, warnings};
use crate::args::{Common, RestoreArgs};
use crate::exit::exit_code;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::sqlite;
use densite_tools::Progress as _;
use densite_tools::replica::{At, RestoreOptions, RestoredAll, restore_all, verify_all};
use serde_json::{Value, json};

pub(super) fn run(common: Common, args: &RestoreArgs, options: RestoreOptions) -> Outcome {
    if let At::Number(_) = options.at {
        let text = "--number is of one database; restore a directory with --at TIME".to_owned();
        return Err(Failure::Other("setting", 2, text, json!({})));
    }
    let api = sqlite::api()?;
    let mut bar = Bar::interruptible(common)?;
    let mut told = Told::new(common, args.verify_only);
    let mut tell = |bar: &mut Bar, result| told.tell(bar, result);
    match &args.db {
        Some(dir) => {
            restore_all(api, &args.url, options, dir, &mut bar, &mut tell)?;
        }
        None => verify_all(api, &args.url, options, &mut bar, &mut tell)?,
    }
    drop(bar);
    told.end()
}

/// What became of the databases.
struct Told {
    common: Common,
    verifies: bool,
    done: Vec<Value>,
    existing: Vec<Value>,
    failed: Vec<Value>,
    /// The exit code of the first failure.
    code: u8,
}

impl Told {
    fn new(common: Common, verifies: bool) -> Told {
        Told {
            common,
            verifies,
            done: Vec::new(),
            existing: Vec::new(),
            failed: Vec::new(),
            code: 0,
        }
    }

    fn tell(&mut self, bar: &mut Bar, result: RestoredAll) {
        match result {
            RestoredAll::Done(report) => {
                self.done.push(object(&report));
                self.line(bar, &line(&report));
                for note in notes(&report) {
                    self.line(bar, &note);
                }
                for warning in warnings(&report) {
                    bar.rest();
                    out::warning(&warning);
                }
            }
            RestoredAll::Exists(path) => {
                self.line(
                    bar,
                    &format!("{}: exists already, unchanged", path.display()),
                );
                self.existing.push(json!(path));
            }
            RestoredAll::Failed(path, e) => {
                if self.code == 0 {
                    self.code = exit_code(&e);
                }
                self.line(bar, &format!("{}: not restored: {e}", path.display()));
                self.failed
                    .push(json!({ "destination": path, "kind": e.kind(),
                    "message": e.to_string() }));
            }
            _ => {}
        }
    }

    fn line(&self, bar: &mut Bar, text: &str) {
        if !self.common.json {
            bar.message(text);
        }
    }

    fn end(self) -> Outcome {
        let verb = if self.verifies {
            "verified"
        } else {
            "restored"
        };
        let (done, failed) = (self.done.len(), self.failed.len());
        let text = match (self.verifies, self.existing.len()) {
            (true, _) => format!("{done} {verb}, {failed} failed\n"),
            (false, 1) => format!("{done} {verb}, 1 exists already, {failed} failed\n"),
            (false, n) => format!("{done} {verb}, {n} exist already, {failed} failed\n"),
        };
        let object = json!({ "verb": "restore", "restored": self.done,
            "existing": self.existing, "failed": self.failed });
        let text = if self.common.quiet {
            String::new()
        } else {
            text
        };
        Ok(out::verdict(self.common, &object, &text, self.code)?)
    }
}
