//! `.import FILE TABLE`: loads a file as `densite load` does.
//!
//! As in the sqlite3 shell, the first line of a CSV file is a row if the table exists, and has the
//! names of the columns otherwise, and .separator says what separates fields. A file whose name
//! begins with `|` is a command that prints CSV.

use super::super::session::{Flow, Session};
use crate::args::{FileFormat, LoadArgs, Quote, Types};
use crate::failure::Failure;
use crate::load::file_failure::{doubt, input};
use crate::load::insert::{Options, Stop, load};
use crate::load::{Bad, format_of, open, open_text, target_table};
use crate::out;
use crate::progress::Bar;
use crate::sql::failure::{At, failure, other};
use crate::sql::interrupt::Interrupts;
use crate::sql::pipe::{FromCommand, command_of};
use densite_tools::Progress;
use rusqlite::{Connection, OptionalExtension};

/// Memory for sorting rows, in MiB.
const MEMORY: u64 = 64;

struct Importing<'a> {
    bar: Bar,
    interrupts: &'a Interrupts,
}

impl Progress for Importing<'_> {
    fn phase(&mut self, name: &'static str, total: u64) {
        self.bar.phase(name, total);
    }

    fn done(&mut self, done: u64) {
        self.bar.done(done);
    }

    fn message(&mut self, text: &str) {
        self.bar.message(text);
    }

    fn cancelled(&mut self) -> bool {
        self.interrupts.has_come()
    }
}

/// The arguments.
struct Given<'a> {
    file: &'a str,
    table: &'a str,
    schema: Option<&'a str>,
    /// Whether the file is CSV whatever its name.
    is_csv: bool,
    /// How many of its first lines are no rows.
    skip: u64,
}

fn parse(arguments: &[String]) -> Result<Given<'_>, Failure> {
    let (mut names, mut is_csv, mut skip, mut schema) = (Vec::new(), false, 0, None);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--csv" | "-csv" => is_csv = true,
            "--skip" | "-skip" => {
                let lines = rest.next().and_then(|n| n.parse().ok());
                skip = lines.ok_or_else(|| other("--skip takes a number of lines".to_owned()))?;
            }
            "--schema" | "-schema" => {
                let name = rest.next().map(String::as_str);
                schema = Some(name.ok_or_else(|| other("--schema takes a name".to_owned()))?);
            }
            option if option.starts_with('-') => {
                return Err(other(format!(
                    "{option} is no option of .import, which has --csv, --schema NAME and --skip N"
                )));
            }
            name => names.push(name),
        }
    }
    match names.as_slice() {
        [file, table] => Ok(Given {
            file,
            table,
            schema,
            is_csv,
            skip,
        }),
        _ => Err(other(
            "the command is .import [--csv] [--schema NAME] [--skip N] FILE TABLE".to_owned(),
        )),
    }
}

/// The schema of the table that SQL means by its name alone; "main" if there is none.
fn schema_of(db: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT d.name FROM pragma_table_list AS t JOIN pragma_database_list AS d ON d.name = t.schema
               WHERE t.name = ?1 COLLATE NOCASE ORDER BY d.name = 'temp' DESC, d.seq LIMIT 1";
    let found = db.query_row(sql, [table], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or_else(|| "main".to_owned()))
}

pub(super) fn run(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let Given {
        file,
        table,
        schema,
        is_csv,
        skip,
    } = parse(arguments)?;
    let sql = |e: rusqlite::Error| failure(&session.db, At::Prompt, &e);
    let schema = match schema {
        Some(name) => name.to_owned(),
        None => schema_of(&session.connection, table).map_err(sql)?,
    };
    let exists = target_table::find_table(&session.connection, &schema, table)
        .map_err(sql)?
        .is_some();
    let separator = session.output.style().separators.0.as_deref();
    let delimiter = match separator.map(str::as_bytes) {
        None => None,
        Some(&[byte]) => Some(byte),
        Some(_) => {
            return Err(other(
                "files are read with one ASCII character between fields; set it with .separator"
                    .to_owned(),
            ));
        }
    };
    let mut args = LoadArgs {
        db: session.db.clone(),
        table: table.to_owned(),
        file: file.into(),
        format: is_csv.then_some(FileFormat::Csv),
        skip,
        no_header: exists,
        delimiter,
        quote: Quote::Double,
        null: None,
        types: Types::Text,
        encoding: None,
        upsert: Vec::new(),
        skip_errors: false,
        memory: MEMORY,
    };
    let format = match command_of(file) {
        Some(_) => FileFormat::Csv,
        None => format_of(&args).unwrap_or(FileFormat::Csv),
    };
    args.no_header &= format == FileFormat::Csv;
    let opened = match command_of(file) {
        Some(command) => match FromCommand::start(command) {
            Ok(rows) => open_text(rows, &args, format),
            Err(e) => Err(Bad::file(format!("cannot be started: {e}"))),
        },
        None => open(&args, format),
    };
    let mut source = opened.map_err(|bad| input(&args.file, "line", bad))?;
    let unit = source.unit();
    if format != FileFormat::Csv {
        for _ in 0..skip {
            // What is no row is skipped too.
            let _ = source.next();
        }
    }
    let options = Options {
        schema: &schema,
        table,
        skip_errors: false,
        by_order: args.no_header,
        // As in the sqlite3 shell.
        reads_spelled: format != FileFormat::Csv,
        types: Some(&args.types),
        upsert: &[],
        memory: MEMORY << 20,
    };
    let mut progress = Importing {
        bar: Bar::new(session.common),
        interrupts: &session.interrupts,
    };
    progress.phase(
        "load",
        std::fs::metadata(file).map_or(0, |about| about.len()),
    );
    let done = load(
        &session.connection,
        source.as_mut(),
        &options,
        &mut progress,
    );
    drop(progress);
    match done {
        Ok(loaded) => {
            let rows = out::counted(loaded.rows, "row", "rows");
            out::message(session.common, &format!("{rows} into {table}"));
            if loaded.created
                && let Some(doubt) = doubt(&args.file, unit, source.as_ref())
            {
                out::message(session.common, &doubt);
            }
            Ok(Flow::Next)
        }
        Err(Stop::Input(bad)) => Err(input(&args.file, unit, bad)),
        Err(Stop::Table(reason)) => Err(other(reason)),
        Err(Stop::Sql(e)) => Err(sql(e)),
        Err(Stop::Interrupted) => Err(Failure::Other(
            "interrupted",
            130,
            "interrupted; nothing was loaded".to_owned(),
            serde_json::json!({}),
        )),
    }
}
