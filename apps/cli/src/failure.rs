//! The ways a verb can fail.

use crate::exit::exit_code;
use crate::out::{self, Object};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The result of a verb: its exit code, or the failure.
pub(crate) type Outcome = Result<u8, Failure>;

/// A failure, and how it is reported.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library.
    Library(densite_tools::Error),
    /// The reader of the output closed it, so there is no place to report to.
    Closed,
    /// Writing the output failed.
    Output(io::Error),
    /// The same, as a whole sentence.
    Unprinted(String),
    /// Reported already: `sql` closes the JSON object that it began.
    Reported(u8),
    /// Any other failure: kind, exit code, message, and details for JSON.
    Other(&'static str, u8, String, Value),
}

impl Failure {
    /// The failure of a directory that was named as a database and has replicas right below it.
    pub(crate) fn of_replicas(directory: &Path) -> Option<Failure> {
        let below = densite_tools::replica::below(directory)?;
        let path = directory.display();
        Some(Failure::Other(
            "is_directory",
            5,
            format!("{path} is a directory, not a database; {below}"),
            json!({ "path": path.to_string() }),
        ))
    }

    /// Prints the failure, and returns the exit code.
    pub(crate) fn report(self, object: Object) -> u8 {
        match self {
            Failure::Library(e) => {
                out::failure(
                    object,
                    e.kind(),
                    exit_code(&e),
                    &e.to_string(),
                    densite_tools::json::details(&e),
                );
                exit_code(&e)
            }
            Failure::Closed => 0,
            Failure::Reported(code) => code,
            Failure::Output(e) => Failure::Unprinted(format!(
                "cannot write the output: {e}; check where it goes, and run this again"
            ))
            .report(object),
            Failure::Unprinted(text) => {
                out::failure(Object::None, "io", 1, &text, json!({}));
                1
            }
            Failure::Other(kind, code, text, details) => {
                out::failure(object, kind, code, &text, details);
                code
            }
        }
    }
}

impl From<densite_tools::Error> for Failure {
    fn from(e: densite_tools::Error) -> Failure {
        let of_replicas = match &e {
            densite_tools::Error::IsDirectory { path } => Failure::of_replicas(path),
            _ => None,
        };
        of_replicas.unwrap_or(Failure::Library(e))
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        if e.kind() == io::ErrorKind::BrokenPipe {
            Failure::Closed
        } else {
            Failure::Output(e)
        }
    }
}
