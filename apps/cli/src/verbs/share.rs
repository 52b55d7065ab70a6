//! `densite share DIR`: what packages put into /usr/share.
//!
//! The pages and completions come from the definition of the arguments, so they cannot contradict
//! `--help`.

use crate::args::{Cli, ShareArgs};
use crate::failure::{Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;

/// The rules for file(1).
const MAGIC: &str = include_str!("../../densite.magic");

pub(crate) fn run(args: &ShareArgs) -> Outcome {
    write(&args.dir).map_err(|e| {
        let dir = args.dir.display();
        let details = json!({ "path": args.dir.to_string_lossy() });
        Failure::Other("io", 1, format!("{dir}: cannot be written: {e}"), details)
    })?;
    Ok(0)
}

fn write(dir: &Path) -> io::Result<()> {
    let made = |name: &str| {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).map(|()| dir)
    };
    let mut command = Cli::command();
    command.build();
    clap_mangen::generate_to(command, made("man/man1")?)?;
    for (shell, place, name) in [
        (Shell::Bash, "bash-completion/completions", "densite"),
        (Shell::Zsh, "zsh/site-functions", "_densite"),
        (Shell::Fish, "fish/vendor_completions.d", "densite.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "densite", &mut text);
        fs::write(made(place)?.join(name), text)?;
    }
    fs::write(made("densite")?.join("densite.magic"), MAGIC)
}
