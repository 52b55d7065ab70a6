//! `densite export DB TABLE|QUERY FILE`
//!
//! One statement, so the file has one state of the database. The file gets its name when it is
//! complete.

use crate::args::{Common, ExportArgs, Format};
use crate::compressor;
use crate::failure::{Failure, Outcome};
use crate::progress::Bar;
use crate::shown;
use crate::sql::failure::{At, failure, nearest_table, other};
use crate::sql::format::{Column, Sink, Style, sink};
use crate::sql::interrupt::Interrupts;
use crate::sql::open::{Access, open, shown_name};
use crate::sql::output::may_replace;
use crate::sql::params::Params;
use crate::{out, sqlite};
use densite_sqlite::quoted;
use densite_tools::{NewFile, Progress};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

/// Words that a query begins with.
const QUERIES: [&str; 5] = ["SELECT", "WITH", "VALUES", "PRAGMA", "EXPLAIN"];

pub(crate) fn run(common: Common, args: &ExportArgs) -> Outcome {
    let begin = Instant::now();
    let is_stdout = args.file == Path::new("-");
    let (name, compression) = Compression::of(&args.file);
    let usage = |text: &str| Err(Failure::Other("usage", 2, text.to_owned(), json!({})));
    if let Some(command) = compressor::of(name) {
        let text = format!(
            "{0}: export compresses only with gzip and zstd, and once; run densite export DB TABLE - --format csv | {command} > {0}",
            args.file.display()
        );
        return usage(&text);
    }
    let Some(format) = args.format.or_else(|| Format::of_name(name)) else {
        let text = format!(
            "{}: the format is not clear from the name; give --format csv, tsv, json, jsonl, parquet or arrow",
            args.file.display()
        );
        return Err(Failure::Other("usage", 2, text, json!({})));
    };
    if args.no_header
        && !matches!(
            format,
            Format::Csv
                | Format::Tsv
                | Format::Table
                | Format::List
                | Format::Quote
                | Format::Insert
        )
    {
        let text = format!(
            "--no-header has no meaning for the format {}; leave it out",
            format.name()
        );
        return usage(&text);
    }
    if args.text && !matches!(format, Format::Parquet | Format::Arrow) {
        let text = format!(
            "--text has no meaning for the format {}; leave it out",
            format.name()
        );
        return usage(&text);
    }
    if is_stdout && common.json {
        return usage("with - the rows go to stdout, where --json prints its object; name a file");
    }
    if is_stdout && format.is_binary() && io::stdout().is_terminal() {
        return usage("this format is not for a terminal; name a file, or redirect the output");
    }
    sqlite::api()?;
    let name = shown_name(&args.db);
    let db = open(&args.db, Access::Existing)?;
    let mut interrupts = Interrupts::default();
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        interrupts.catch(&db, &[SIGINT, SIGTERM, SIGHUP])?;
    }
    let (sql, table) = query(&db, &name, &args.source)?;
    let mut bar = Bar::new(common);
    bar.phase("export", 0);
    let mut rows = 0;
    let mut write = |out: &mut dyn Write| {
        let style = Style {
            header: Some(!args.no_header),
            as_text: args.text,
            table: table.clone(),
            ..Style::default()
        };
        let mut sink = sink(format, &style);
        write_rows(&db, &name, &sql, args, sink.as_mut(), out, &mut rows)
    };
    let done = match is_stdout {
        true => {
            let mut out = BufWriter::new(io::stdout().lock());
            write(&mut out).and_then(|()| Ok(out.flush()?)).map(|()| 0)
        }
        false => to_file(args, common.yes, compression, write),
    };
    bar.rest();
    if interrupts.has_come() {
        let text = "interrupted; nothing was exported".to_owned();
        return Err(Failure::Other("interrupted", 130, text, json!({})));
    }
    let bytes = done?;
    if is_stdout {
        return Ok(0);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let object = json!({
        "verb": "export",
        "path": name,
        "source": args.source,
        "file": args.file.to_string_lossy(),
        "format": format.name(),
        "rows": rows,
        "file_bytes": bytes,
        "seconds": seconds,
    });
    let text = match common.quiet {
        true => String::new(),
        false => format!(
            "{}: {}, {} in {seconds:.1} s\n",
            shown::path(&args.file),
            out::counted(rows, "row", "rows"),
            out::bytes(bytes),
        ),
    };
    let done = format!("{}: the file was written", args.file.display());
    out::report(common, &object, &text, &done);
    Ok(0)
}

/// The query, that of a table or view or the one that was given, and the table.
fn query(db: &Connection, name: &str, source: &str) -> Result<(String, Option<String>), Failure> {
    let sql = "SELECT 1 FROM (SELECT name, type FROM main.sqlite_schema UNION ALL SELECT name, type FROM temp.sqlite_schema)
               WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE";
    let found = db.query_row(sql, [source], |_| Ok(())).optional();
    if found
        .map_err(|e| failure(name, At::Database, &e))?
        .is_some()
    {
        let sql = format!("SELECT * FROM {}", quoted(source));
        return Ok((sql, Some(source.to_owned())));
    }
    let first = without_comments(source)
        .split(|c: char| !c.is_alphanumeric())
        .find(|word| !word.is_empty());
    let is_query = first.is_some_and(|word| QUERIES.iter().any(|q| q.eq_ignore_ascii_case(word)));
    match is_query {
        true => Ok((source.to_owned(), None)),
        false => {
            let hint = match nearest_table(db, source) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => format!("densite sql {name} .tables lists them"),
            };
            Err(other(format!(
                "{name}: there is no table or view {source}, and it is no query, which begins with SELECT; {hint}"
            )))
        }
    }
}

/// The query without the comments before its first word.
fn without_comments(mut source: &str) -> &str {
    loop {
        source = source.trim_start();
        let behind = match source.get(..2) {
            Some("--") => source.split_once('\n'),
            Some("/*") => source.split_once("*/"),
            _ => return source,
        };
        source = behind.map_or("", |(_, behind)| behind);
    }
}

/// Writes the rows of a query.
fn write_rows(
    db: &Connection,
    name: &str,
    sql: &str,
    args: &ExportArgs,
    sink: &mut dyn Sink,
    out: &mut dyn Write,
    count: &mut u64,
) -> Result<(), Failure> {
    let failed = |e: rusqlite::Error| failure(name, At::Database, &e);
    let mut statement = db.prepare(sql).map_err(failed)?;
    if !statement.readonly() {
        return Err(other(
            "the query changes the database; run it with densite sql".to_owned(),
        ));
    }
    let params = Params::new(&args.param);
    params.bind(&mut statement).map_err(failed)??;
    let column = |column: rusqlite::Column<'_>| Column {
        name: column.name().to_owned(),
        declared: column.decl_type().map(str::to_owned),
    };
    let columns: Vec<Column> = statement.columns().map(column).collect();
    let mut rows = statement.raw_query();
    sink.begin(out, &columns)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let values = (0..columns.len()).map(|i| row.get_ref(i));
        let values: Vec<ValueRef<'_>> = values.collect::<Result<_, _>>().map_err(failed)?;
        sink.row(out, &values)?;
        *count += 1;
    }
    Ok(sink.end(out)?)
}

/// How a file is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// The name without the end that stands for a compression.
    fn of(path: &Path) -> (&Path, Compression) {
        let compression = match path.extension() {
            Some(end) if end.eq_ignore_ascii_case("gz") => Compression::Gzip,
            Some(end) if end.eq_ignore_ascii_case("zst") => Compression::Zstd,
            _ => Compression::None,
        };
        match path.file_stem() {
            Some(stem) if compression != Compression::None => (Path::new(stem), compression),
            _ => (path, compression),
        }
    }
}

/// Bytes for a new file. The file's own error is kept, because `Write` would lose its kind.
struct Sent {
    file: NewFile,
    failed: Option<densite_tools::Error>,
}

impl Write for &mut Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes).map_err(|e| {
            let text = e.to_string();
            self.failed.get_or_insert(e);
            io::Error::other(text)
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a new file. Returns its length.
fn to_file(
    args: &ExportArgs,
    replace: bool,
    compression: Compression,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    may_replace(&args.file)?;
    let mut sent = Sent {
        file: NewFile::create(&args.file, replace).map_err(exists)?,
        failed: None,
    };
    let done = through(compression, &mut sent, write);
    if let Some(e) = sent.failed {
        return Err(e.into());
    }
    done?;
    let bytes = sent.file.len();
    sent.file.finish()?;
    Ok(bytes)
}

/// Names what replaces a file that exists.
fn exists(e: densite_tools::Error) -> Failure {
    match e {
        densite_tools::Error::Exists { path } => Failure::Other(
            "exists",
            1,
            format!(
                "{} exists already and was not changed; --yes replaces it",
                path.display()
            ),
            json!({ "path": path }),
        ),
        e => e.into(),
    }
}

fn through(
    compression: Compression,
    sent: &mut Sent,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 16, sent);
    match compression {
        Compression::None => write(&mut out)?,
        Compression::Gzip => {
            let level = flate2::Compression::default();
            let mut gzip = flate2::write::GzEncoder::new(&mut out, level);
            write(&mut gzip)?;
            gzip.finish()?;
        }
        Compression::Zstd => {
            let mut zstd = zstd::stream::write::Encoder::new(&mut out, 3)?;
            write(&mut zstd)?;
            zstd.finish()?;
        }
    }
    Ok(out.flush()?)
}
