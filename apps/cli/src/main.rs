//! The `densite` command. Its output with `--json` is a contract: docs/CLI.md.

#![forbid(unsafe_code)]
// What statements and results have in common stands in one place, whether or not the shell is there.
#![cfg_attr(not(feature = "shell"), allow(dead_code, unused_imports))]

mod advice;
mod args;
mod ask;
mod compressor;
mod exit;
mod failure;
mod gain;
mod load;
mod out;
mod panics;
mod progress;
mod report;
#[cfg(feature = "shell")]
mod shell;
mod shown;
mod sql;
mod sqlite;
mod verbs;

use args::{Cli, Verb};
use clap::Parser;
use clap::error::ErrorKind;
use failure::Outcome;
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return usage(e),
    };
    // With a handler for SIGXFSZ, reaching the limit on file sizes is an error of the write, and
    // the changes are undone.
    let limited = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, limited);
    panics::keep_quiet();
    let done = panics::caught(|| run(&cli));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let object = match (cli.common.json, &cli.verb) {
                (false, _) => out::Object::None,
                (true, Verb::Replicate(_)) => out::Object::Line,
                (true, Verb::Join(args)) if args.stay => out::Object::Line,
                (true, _) => out::Object::Whole,
            };
            ExitCode::from(failure.report(object))
        }
    }
}

fn run(cli: &Cli) -> Outcome {
    match &cli.verb {
        Verb::Compress(args) => verbs::compress::run(cli.common, args),
        Verb::Decompress(args) => verbs::decompress::run(cli.common, args),
        Verb::Publish(args) => verbs::publish::run(cli.common, args),
        Verb::Info(args) => verbs::info::run(cli.common, args),
        Verb::Check(args) => verbs::check::run(cli.common, args),
        Verb::Salvage(args) => verbs::salvage::run(cli.common, args),
        Verb::Vacuum(args) => verbs::vacuum::run(cli.common, args),
        Verb::Report(args) => verbs::report::run(cli.common, args),
        #[cfg(feature = "shell")]
        Verb::Sql(args) => verbs::sql::run(cli.common, args),
        Verb::Load(args) => verbs::load::run(cli.common, args),
        Verb::Advise(args) => verbs::advise::run(cli.common, args),
        Verb::Export(args) => verbs::export::run(cli.common, args),
        Verb::Log(verb) => verbs::log::run(cli.common, verb),
        Verb::Replicate(args) => verbs::replicate::run(cli.common, args),
        Verb::Restore(args) => verbs::restore::run(cli.common, args),
        Verb::Replicas(args) => verbs::replicas::run(cli.common, args),
        Verb::Share(args) => verbs::share::run(args),
        Verb::Join(args) => verbs::join::run(cli.common, args),
        Verb::Leave(args) => verbs::leave::run(cli.common, args),
        Verb::Trim(args) => verbs::trim::run(cli.common, args),
    }
}

/// Prints clap's message: an error in the arguments, the help, or the version.
fn usage(e: clap::Error) -> ExitCode {
    // clap repeats arguments unchanged. So the arguments are parsed again in their escaped form:
    // clap finds the same error and prints that form.
    let shown = std::env::args_os().map(|arg| shown::shown(&arg.to_string_lossy()));
    let e = Cli::try_parse_from(shown).err().unwrap_or(e);
    // clap prints help and version to stdout, and errors to stderr.
    let _ = e.print();
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => {
            if std::env::args_os().any(|a| a == "--json") {
                let text = e.to_string();
                let first = text
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("error: ");
                let object = json!({ "error": out::error("usage", 2, first, json!({})) });
                // The exit code and stderr say the same.
                let _ = writeln!(io::stdout().lock(), "{}", shown::json(&object));
            }
            ExitCode::from(2)
        }
    }
}
