//! Where results go, and in which format.

use super::failure::other;
use super::format::{Column, Sink, Style, sink};
use super::pipe::ToCommand;
use crate::args::Format;
use crate::compressor;
use crate::failure::Failure;
use densite_tools::is_database;
use rusqlite::Rows;
use rusqlite::types::ValueRef;
use serde_json::json;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The output of a session: standard output, a file, or a command.
pub(crate) struct Output {
    out: Box<dyn Write>,
    /// The file, or `|` and the command; `None` for standard output.
    file: Option<PathBuf>,
    /// Whether the command reads no more.
    is_gone: Rc<Cell<bool>>,
    /// Whether standard output follows after the next result.
    is_once: bool,
    format: Format,
    style: Style,
    sink: Box<dyn Sink>,
}

fn stdout() -> Box<dyn Write> {
    Box::new(BufWriter::new(io::stdout()))
}

impl Output {
    pub(crate) fn new(format: Format) -> Output {
        Output {
            out: stdout(),
            file: None,
            is_gone: Rc::default(),
            is_once: false,
            format,
            style: Style::default(),
            sink: sink(format, &Style::default()),
        }
    }

    /// Results go to this sink, whatever the format.
    pub(crate) fn with_sink(self, sink: Box<dyn Sink>) -> Output {
        Output { sink, ..self }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    /// The file that results go to, or `|` and the command; `None` for standard output.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Sets the format. Its separators are then its own again.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.format = format;
        self.style.separators = (None, None);
        self.renew();
    }

    pub(crate) fn set_style(&mut self, style: Style) {
        self.style = style;
        self.renew();
    }

    /// The next result is the first of its sink: a file of columns has one result.
    fn renew(&mut self) {
        self.sink = sink(self.format, &self.style);
    }

    /// Sends the following results to a file, which is replaced, or only the next one.
    pub(crate) fn redirect(&mut self, path: &Path, is_once: bool) -> Result<(), Failure> {
        self.restore()?;
        if let Some(command) = compressor::of(path) {
            let file = path.display();
            return Err(other(format!(
                "{file}: results are not compressed; write them with .once |{command} > {file}, or with densite export"
            )));
        }
        may_replace(path)?;
        let file = File::create(path).map_err(|e| {
            let text = format!("{}: cannot be written: {e}", path.display());
            Failure::Other("io", 1, text, json!({ "path": path.to_string_lossy() }))
        })?;
        self.begin(file, path.to_owned(), is_once);
        Ok(())
    }

    /// Sends the following results to a command, or only the next one.
    pub(crate) fn pipe(&mut self, command: &str, is_once: bool) -> Result<(), Failure> {
        self.restore()?;
        let name = format!("|{command}");
        let started = ToCommand::start(command).map_err(|e| {
            let text = format!("{name}: cannot be started: {e}");
            Failure::Other("io", 1, text, json!({ "path": name }))
        })?;
        let is_gone = started.is_gone();
        self.begin(started, name.into(), is_once);
        self.is_gone = is_gone;
        Ok(())
    }

    fn begin(&mut self, out: impl Write + 'static, name: PathBuf, is_once: bool) {
        self.out = Box::new(BufWriter::new(out));
        (self.file, self.is_once) = (Some(name), is_once);
        self.renew();
    }

    /// Sends the following results to standard output.
    pub(crate) fn restore(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.file.take().is_some() {
            // A command is waited for.
            self.out = stdout();
            self.is_gone = Rc::default();
            self.renew();
        }
        self.is_once = false;
        Ok(())
    }

    /// Ends the output of a statement or command.
    pub(crate) fn end_of_command(&mut self) -> Result<(), Failure> {
        match self.is_once {
            true => self.restore(),
            false => Ok(()),
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Prints text that is not a result.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Prints the result of a statement. The outer error is one of the output, the inner one is
    /// SQLite's. `fetched` is called once the first row has arrived.
    pub(crate) fn print(
        &mut self,
        columns: &[Column],
        rows: &mut Rows<'_>,
        fetched: impl FnOnce(),
    ) -> io::Result<rusqlite::Result<()>> {
        if self.format.is_binary() && self.file.is_none() && io::stdout().is_terminal() {
            return Err(io::Error::other(
                "this format is not for a terminal; name a file with --output or .output",
            ));
        }
        // Fetches the first row before the header is printed, so a statement that fails at once
        // prints no header.
        let mut row = match rows.next() {
            Ok(row) => row,
            Err(e) => return Ok(Err(e)),
        };
        fetched();
        let Output {
            sink, out, is_gone, ..
        } = self;
        sink.begin(out, columns)?;
        let mut done = Ok(());
        while let Some(r) = row {
            let values: Result<Vec<ValueRef<'_>>, _> =
                (0..columns.len()).map(|i| r.get_ref(i)).collect();
            match values {
                Ok(values) => sink.row(out, &values)?,
                Err(e) => {
                    done = Err(e);
                    break;
                }
            }
            if is_gone.get() {
                break;
            }
            match rows.next() {
                Ok(next) => row = next,
                Err(e) => {
                    done = Err(e);
                    break;
                }
            }
        }
        match done {
            Ok(()) => sink.end(out)?,
            Err(_) => sink.stop(out)?,
        }
        Ok(done)
    }
}

/// Refuses to replace a database: that is a mistake.
pub(crate) fn may_replace(path: &Path) -> Result<(), Failure> {
    let mut start = Vec::new();
    let read = std::fs::metadata(path)
        .ok()
        .filter(|about| about.is_file())
        .and_then(|_| File::open(path).ok())
        .map(|file| file.take(16).read_to_end(&mut start));
    match read {
        Some(Ok(_)) if is_database(&start) => {
            let text = format!(
                "{} is a database, which an output does not replace; choose another file",
                path.display()
            );
            Err(Failure::Other(
                "exists",
                1,
                text,
                json!({ "path": path.to_string_lossy() }),
            ))
        }
        _ => Ok(()),
    }
}
