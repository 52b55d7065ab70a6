//! Commands of the system: `.shell`, and those that results go to or that text comes from, as in
//! `.once |less`.
//!
//! As in the sqlite3 shell, `/bin/sh` runs them.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::Rc;

/// The command, if a name stands for one: it then begins with `|`.
pub(crate) fn command_of(name: &str) -> Option<&str> {
    name.strip_prefix('|').map(str::trim)
}

fn shell(command: &str) -> io::Result<Command> {
    if command.is_empty() {
        return Err(io::Error::other("there is no command behind the |"));
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    Ok(shell)
}

/// Runs a command to its end, on the stdin of this process or on none.
pub(crate) fn run(command: &str, has_stdin: bool) -> io::Result<ExitStatus> {
    let mut shell = shell(command)?;
    if !has_stdin {
        shell.stdin(Stdio::null());
    }
    shell.status()
}

/// A command that reads results. Dropping it ends its input and waits for it, so that its output
/// comes before that of later statements.
pub(crate) struct ToCommand {
    child: Child,
    /// `None` once the command reads no more.
    stdin: Option<ChildStdin>,
    is_gone: Rc<Cell<bool>>,
}

impl ToCommand {
    /// Starts a command.
    pub(crate) fn start(command: &str) -> io::Result<ToCommand> {
        let mut child = shell(command)?.stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        Ok(ToCommand {
            child,
            stdin,
            is_gone: Rc::default(),
        })
    }

    /// Tells whether the command reads no more, so that further rows are of no use.
    pub(crate) fn is_gone(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_gone)
    }
}

impl Write for ToCommand {
    /// A command that has read enough, as `head` does, is no error.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else {
            return Ok(bytes.len());
        };
        match stdin.write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.stdin = None;
                self.is_gone.set(true);
                Ok(bytes.len())
            }
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ToCommand {
    fn drop(&mut self) {
        self.stdin = None;
        // Its exit code means nothing here: that of grep tells whether it found something.
        self.child.wait().ok();
    }
}

/// A command whose output is read. If it fails, so does reading: a part of its output would be
/// taken for all of it.
#[derive(Debug)]
pub(crate) struct FromCommand {
    child: Child,
    /// `None` after its end.
    stdout: Option<ChildStdout>,
}

impl FromCommand {
    /// Starts a command. It does not read the stdin of this process, which can be a script.
    pub(crate) fn start(command: &str) -> io::Result<FromCommand> {
        let mut shell = shell(command)?;
        let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take();
        Ok(FromCommand { child, stdout })
    }
}

impl Read for FromCommand {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(stdout) = &mut self.stdout else {
            return Ok(0);
        };
        let read = stdout.read(bytes)?;
        if read > 0 || bytes.is_empty() {
            return Ok(read);
        }
        self.stdout = None;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(0),
            false => Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                format!("the command failed: {status}"),
            )),
        }
    }
}

impl Drop for FromCommand {
    fn drop(&mut self) {
        // A command that still writes ends then.
        self.stdout = None;
        self.child.wait().ok();
    }
}
