//! A process that gets lines and answers with lines, with a time limit.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use crate::result::{About as _, Failure, Result};

/// A running process, which ends with this value.
pub(super) struct Talk {
    child: Child,
    input: ChildStdin,
    output: Receiver<Line>,
    /// The last line of its messages
    message: String,
}

enum Line {
    Output(String),
    Message(String),
}

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Line(String),
    /// The time is over
    Nothing,
}

impl Talk {
    /// Starts a program.
    pub(super) fn start(mut command: Command) -> Result<Talk> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = Path::new(command.get_program()).to_owned();
        let mut child = command.spawn().about("run", &program)?;
        let (sender, output) = channel();
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(lines), Some(messages)) = pipes else {
            return Err(Failure(format!("{} has no pipes", program.display())));
        };
        pass_on(lines, sender.clone(), Line::Output);
        pass_on(messages, sender, Line::Message);
        Ok(Talk {
            child,
            input,
            output,
            message: String::new(),
        })
    }

    /// Sends a line.
    pub(super) fn say(&mut self, line: &str) {
        // A process that has ended has left a message, which `hear` returns.
        let _ = writeln!(self.input, "{line}");
    }

    /// The next line of its output.
    ///
    /// # Errors
    /// If the process has ended, or has written a message that begins with "Error": the message.
    pub(super) fn hear(&mut self, until: Instant) -> Result<Heard> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(Line::Output(line)) => return Ok(Heard::Line(line)),
                Ok(Line::Message(line)) if line.starts_with("Error") => return Err(Failure(line)),
                Ok(Line::Message(line)) if line.trim().is_empty() => {}
                Ok(Line::Message(line)) => self.message = line,
                Err(RecvTimeoutError::Timeout) => return Ok(Heard::Nothing),
                Err(RecvTimeoutError::Disconnected) => {
                    let message = std::mem::take(&mut self.message);
                    return Err(Failure(if message.is_empty() {
                        "it ended without an answer".into()
                    } else {
                        message
                    }));
                }
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on the lines of a pipe, until it ends.
fn pass_on(pipe: impl Read + Send + 'static, to: Sender<Line>, line: fn(String) -> Line) {
    std::thread::spawn(move || {
        for text in BufReader::new(pipe).lines().map_while(std::io::Result::ok) {
            if to.send(line(text)).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> Talk {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Talk::start(command).expect("it starts")
    }

    #[test]
    fn answers_messages_and_the_end_of_the_time_are_told_apart() {
        let soon = || Instant::now() + Duration::from_secs(20);
        let mut talk = shell("read a; echo got $a; read b; echo broken >&2");
        assert_eq!(talk.hear(Instant::now()).expect("it runs"), Heard::Nothing);
        talk.say("one");
        let heard = talk.hear(soon()).expect("it runs");
        assert_eq!(heard, Heard::Line("got one".into()));
        talk.say("two");
        let failure = talk.hear(soon()).expect_err("it ended");
        assert_eq!(failure.0, "broken");
        let failure = shell("echo Error: no >&2; read a").hear(soon());
        assert_eq!(failure.expect_err("a message").0, "Error: no");
    }
}
