//! The arguments of the command.

mod members;

pub(crate) use members::{JoinArgs, LeaveArgs, TrimArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use densite_tools::StoreOptions;
use encoding_rs::Encoding;
use std::path::PathBuf;
use std::time::Duration;

/// Stores SQLite databases compressed, and converts between compressed and plain databases.
#[derive(Debug, Parser)]
#[command(
    name = "densite",
    version,
    arg_required_else_help = true,
    subcommand_required = true
)]
#[command(
    after_help = "Exit codes: 0 done; 1 error; 2 usage; 3 the database is locked; 4 not enough disk space;\n\
                        5 damaged or not a database; 6 the user said no, or could not be asked; 7 internal error;\n\
                        130 interrupted.\n\
                        Documentation: https://github.com/densite/densite/blob/main/docs/README.md"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Common {
    /// Print one JSON object on stdout (docs/CLI.md); progress and messages go to stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print errors and asked-for results only
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Answer yes to every question
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Convert a plain SQLite database into a compressed one
    Compress(CompressArgs),
    /// Convert a compressed database into a plain SQLite one
    Decompress(DecompressArgs),
    /// Write a copy of a database that needs few requests when it is read from a web server or
    /// object storage
    Publish(PublishArgs),
    /// Show the size of a database and the content of its file
    Info(InfoArgs),
    /// Verify every stored page and the page map, and run SQLite's integrity check
    Check(CheckArgs),
    /// Save what can be read of a damaged database to a new one, and list what is missing
    Salvage(SalvageArgs),
    /// Rewrite a database without its deleted data and free space
    Vacuum(VacuumArgs),
    /// Write an HTML report on the use of space in a database and how to reclaim it
    Report(ReportArgs),
    /// Say in five lines what to do with a database: compress, vacuum, settings
    Advise(DbArg),
    /// Run SQL on a database, compressed or plain; at a terminal, a shell
    #[cfg(feature = "shell")]
    Sql(SqlArgs),
    /// Load all rows of a CSV, JSON or Parquet file into a table, or none
    Load(LoadArgs),
    /// Write a table or the result of a query to a CSV, JSON, Parquet or Arrow file
    Export(ExportArgs),
    /// Show or change the log of a database and its subscribers
    #[command(subcommand)]
    Log(LogVerb),
    /// Ship a database, or all of a directory, to object storage or another disk until stopped
    Replicate(ReplicateArgs),
    /// Restore a database from a replica, and verify it
    Restore(RestoreArgs),
    /// Show the generations, restore points and size of a replica
    Replicas(ReplicasArgs),
    /// Make a database a member of a stream: rows of all members come to each of them
    Join(JoinArgs),
    /// Make a member of a stream an independent database
    Leave(LeaveArgs),
    /// Remove the messages of a stream that all its members have applied
    Trim(TrimArgs),
    /// Write man pages, completions and the magic file into a directory
    #[command(hide = true)]
    Share(ShareArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShareArgs {
    /// The directory, as /usr/share
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicateArgs {
    /// The compressed database, or a directory: each compressed database in it goes to its file
    /// name under URL
    pub(crate) db: PathBuf,
    /// s3://BUCKET/PREFIX, or a directory on another disk
    pub(crate) url: PathBuf,
    /// The time between two restore points, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// How long restore points are kept, in hours
    #[arg(long, value_name = "HOURS", default_value = "24", value_parser = hours)]
    pub(crate) retain: Duration,
    /// The time after which a new image of the whole database is sent, in hours
    #[arg(long, value_name = "HOURS", default_value = "24", value_parser = hours)]
    pub(crate) base_every: Duration,
    /// Ship once, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Begin a new generation where the replica is of another database or another history, or is
    /// written by another process, which stops
    #[arg(long)]
    pub(crate) takeover: bool,
    /// Write figures to FILE every 5 seconds, in the text format of Prometheus
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Which messages are printed on stderr: those of this level and the ones before it
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    pub(crate) log_level: LogLevel,
}

/// Levels of messages, from the most important ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    /// Failures that end the work on a database
    Error,
    /// Failures that are tried again, and restore points that are held back
    Warn,
    /// Where each database is replicated
    Info,
    /// Each restore point
    Debug,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The replica: s3://BUCKET/PREFIX, or a directory
    pub(crate) url: PathBuf,
    /// The database to create, or a directory, for all replicas right below URL
    #[arg(required_unless_present = "verify_only")]
    pub(crate) db: Option<PathBuf>,
    /// The moment to restore, in UTC unless it names an offset: '2026-11-27 14:00:00', with T in
    /// the place of the space, with a fraction, with +01:00 or Z [default: the newest]
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "number")]
    pub(crate) at: Option<u64>,
    /// The restore point to restore, by its number in the newest generation
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<u64>,
    /// Replace DB if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Restore the database alone, without the rows that wait in its log
    #[arg(long)]
    pub(crate) without_log: bool,
    /// Restore a database although its b-trees were damaged when it was shipped
    #[arg(long)]
    pub(crate) keep_damage: bool,
    /// Restore to a temporary file, verify it and remove it
    #[arg(long, conflicts_with_all = ["db", "force"])]
    pub(crate) verify_only: bool,
    /// With --verify-only: all replicas right below URL
    #[arg(long, requires = "verify_only")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicasArgs {
    /// The replica: s3://BUCKET/PREFIX, or a directory
    pub(crate) url: PathBuf,
}

/// Of verbs that compress all pages.
#[derive(Debug, Args)]
pub(crate) struct LevelArgs {
    /// Compression level, -7 (fastest) to 22 (smallest) [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Option<i32>,
}

impl LevelArgs {
    /// The settings of the store at this level.
    pub(crate) fn store(&self) -> StoreOptions {
        let usual = StoreOptions::default();
        StoreOptions {
            level: self.level.unwrap_or(usual.level),
            ..usual
        }
    }
}

/// Of verbs that wait for the locks of other connections.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// How long to wait for the lock of another connection, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// The plain SQLite database; with DST also a URL
    pub(crate) src: PathBuf,
    /// The compressed database to create; without it, the verified copy replaces SRC
    pub(crate) dst: Option<PathBuf>,
    /// Compress for archiving: smallest size, slower reads
    #[arg(long)]
    pub(crate) archive: bool,
    /// Compress a database although its list of free pages names pages that tables use: keep them,
    /// and give up the list
    #[arg(long)]
    pub(crate) keep_damage: bool,
    /// Compress in place although a program that opens its database itself will not open it any more
    #[arg(long)]
    pub(crate) known_program: bool,
    /// Compress in place although the database becomes half as large again: each compressed file takes
    /// at least 16 KiB
    #[arg(long)]
    pub(crate) even_if_larger: bool,
    #[command(flatten)]
    pub(crate) level: LevelArgs,
    /// Rewrite the database with pages of this many bytes, a power of two from 512 to 65536
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub(crate) page_size: Option<u32>,
    /// Background threads; 0 uses none [default: one less than the cores, at least 1]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Memory for decoded pages, in MiB [default: an eighth of what is available]
    #[arg(long, value_name = "MIB", value_parser = cache_size)]
    pub(crate) cache_size: Option<usize>,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DecompressArgs {
    /// The compressed database; with DST also a URL
    pub(crate) src: PathBuf,
    /// The plain database to create; without it, the verified copy replaces SRC
    pub(crate) dst: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// The database, compressed or plain, or a URL
    pub(crate) src: PathBuf,
    /// The file to write, or s3://BUCKET/KEY; an existing database is replaced, a file only after
    /// a question
    pub(crate) dst: PathBuf,
    #[command(flatten)]
    pub(crate) level: LevelArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SalvageArgs {
    /// The damaged database, compressed or plain; work on a copy of it and of the files beside it
    pub(crate) src: PathBuf,
    /// The new compressed database
    pub(crate) dst: PathBuf,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DbArg {
    /// The database, compressed or plain
    pub(crate) db: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The database, compressed or plain, or a URL
    pub(crate) db: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The database, compressed or plain, or a URL
    pub(crate) db: PathBuf,
    /// Show all tables and indexes, and the encodings of their columns. A remote file is read for
    /// them
    #[arg(long)]
    pub(crate) columns: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VacuumArgs {
    /// The database, compressed or plain, or a Chroma directory
    pub(crate) path: PathBuf,
    /// Print how much space a vacuum would free and need, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) level: LevelArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The database, compressed or plain, or a URL
    pub(crate) db: PathBuf,
    /// The HTML file to write; a page about the same database is replaced, and keeps its figures;
    /// another file is replaced only with --yes
    #[arg(long, short, value_name = "FILE.html")]
    pub(crate) output: PathBuf,
}

#[cfg(feature = "shell")]
#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The database, compressed or plain, a URL, or a file: URI
    pub(crate) db: String,
    /// The SQL statements and dot commands; without them, they are read from stdin, at a terminal
    /// with a prompt
    pub(crate) sql: Option<String>,
    /// Create a compressed database if the file does not exist
    #[arg(long)]
    pub(crate) create: bool,
    /// The format of the results [default: by the extension of --output, otherwise table]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// The file for the results, which is replaced [default: stdout]
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// The value of the parameter :NAME, @NAME or $NAME; a number, or otherwise text
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) param: Vec<(String, String)>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogVerb {
    /// Show the size of the log, how far it is applied, and the positions of its subscribers
    Status(DbArg),
    /// Add a subscriber: the log keeps all rows that the subscriber has not acknowledged
    Subscribe(SubscribeArgs),
    /// Remove a subscriber: the log keeps no more rows for it
    Unsubscribe(UnsubscribeArgs),
    /// Remove rows that are durable in the database and acknowledged by all subscribers
    Prune(DbArg),
    /// Print the last rows of the log
    Tail(TailArgs),
    /// Read the whole log and list its damage
    Check(LogCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SubscribeArgs {
    /// The database
    pub(crate) db: PathBuf,
    /// Name of the subscriber
    pub(crate) name: String,
    /// Where it starts: at the first row that is still in the log, or at the next new row
    #[arg(long, value_enum, default_value_t = From::Now)]
    pub(crate) from: From,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    Start,
    Now,
}

#[derive(Debug, Args)]
pub(crate) struct UnsubscribeArgs {
    /// The database
    pub(crate) db: PathBuf,
    /// Name of the subscriber
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The database
    pub(crate) db: PathBuf,
    /// The largest number of rows to print
    #[arg(long, short = 'n', value_name = "ROWS", default_value = "10")]
    pub(crate) max: u64,
    /// Start after the row with this number instead of near the end
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Continue with new rows until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogCheckArgs {
    /// The database
    pub(crate) db: PathBuf,
    /// Keep the readable rows of a damaged log; prints the losses and asks first. No other process
    /// may have the log open
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// The database, compressed or plain, or a file: URI; a missing file becomes a compressed
    /// database
    pub(crate) db: String,
    /// The table; if it does not exist, it is created with the columns of the file
    pub(crate) table: String,
    /// The file; - is stdin
    pub(crate) file: PathBuf,
    /// The format of the file [default: by the extension of its name]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// Rows before the header line, which are skipped. `.import` has this option.
    #[arg(skip)]
    pub(crate) skip: u64,
    /// CSV: the first line is a row; fields are assigned to the columns of the table in order
    #[arg(long)]
    pub(crate) no_header: bool,
    /// CSV: the delimiter between fields, one character or \\t [default: a comma, in .tsv files a
    /// tab]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// CSV: the quote around fields with delimiters, line ends or quotes; none if quotes are
    /// ordinary text
    #[arg(long, value_name = "QUOTE", default_value = "\"", value_parser = quote)]
    pub(crate) quote: Quote,
    /// CSV: load fields with this text, not in quotes, as NULL [default: no field is NULL]
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,
    /// CSV: the types of a new table's columns: auto (by their values), text, or
    /// COLUMN=TYPE,... with INTEGER, REAL or TEXT; other columns are then auto
    #[arg(long, value_name = "TYPES", default_value = "auto", value_parser = types)]
    pub(crate) types: Types,
    /// CSV, JSON: the encoding, such as latin1 or utf-16le [default: by the byte order mark,
    /// otherwise UTF-8]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    pub(crate) encoding: Option<&'static Encoding>,
    /// Update the rows that have the same value in these columns, and insert the others; the
    /// columns are the key of a new table
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub(crate) upsert: Vec<String>,
    /// Skip rows that cannot be loaded, and print their number
    #[arg(long)]
    pub(crate) skip_errors: bool,
    /// Memory for sorting rows by the table's key, in MiB
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = memory)]
    pub(crate) memory: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The database, compressed or plain, a URL, or a file: URI
    pub(crate) db: String,
    /// The table or view, or a query
    #[arg(value_name = "TABLE|QUERY")]
    pub(crate) source: String,
    /// The file to create, with .gz or .zst compressed; - is stdout
    pub(crate) file: PathBuf,
    /// The format of the file [default: by the extension of its name]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// CSV: no line with the column names
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Parquet, Arrow: each value as text, as CSV has it
    #[arg(long)]
    pub(crate) text: bool,
    /// The value of the parameter :NAME, @NAME or $NAME; a number, or otherwise text
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) param: Vec<(String, String)>,
}

/// The types of the columns of a table that is created for a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Types {
    /// All are TEXT.
    Text,
    /// By their values, except for these columns.
    Auto(Vec<(String, &'static str)>),
}

impl Default for Types {
    fn default() -> Types {
        Types::Auto(Vec::new())
    }
}

/// Whether fields of a CSV file can be quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quote {
    None,
    Double,
}

impl Quote {
    /// The quote, if there is one.
    pub(crate) fn byte(self) -> Option<u8> {
        (self == Quote::Double).then_some(b'"')
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values
    Csv,
    /// A JSON array of objects
    Json,
    /// A JSON object in each line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

impl FileFormat {
    /// The JSON name of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
            FileFormat::Jsonl => "jsonl",
            FileFormat::Parquet => "parquet",
        }
    }

    /// Its name in messages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            FileFormat::Csv => "CSV",
            FileFormat::Json => "JSON",
            FileFormat::Jsonl => "JSON lines",
            FileFormat::Parquet => "Parquet",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with borders, for people
    #[value(aliases = ["box", "column"])]
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// Tab-separated values with a header line
    #[value(alias = "tabs")]
    Tsv,
    /// An array of objects for each result
    Json,
    /// An object on a line of its own for each row
    #[value(alias = "ndjson")]
    Jsonl,
    /// A Markdown table
    Markdown,
    /// A line for each value
    Line,
    /// A line for each row, with | between values, as in the sqlite3 shell
    List,
    /// A line for each row, with SQL literals
    Quote,
    /// An INSERT statement for each row
    Insert,
    /// A Parquet file, for one result
    Parquet,
    /// An Arrow file, for one result
    #[value(alias = "feather")]
    Arrow,
}

impl Format {
    /// The name of the format.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The format that the extension of a name stands for.
    pub(crate) fn of_name(path: &std::path::Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "csv" => Format::Csv,
            "tsv" | "tab" => Format::Tsv,
            "json" => Format::Json,
            "jsonl" | "ndjson" => Format::Jsonl,
            "md" => Format::Markdown,
            "parquet" => Format::Parquet,
            "arrow" | "feather" => Format::Arrow,
            _ => return None,
        })
    }

    /// Whether the format is a file of columns, and no text.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }
}

/// Parses an integer within bounds; the error states the bounds.
fn bounded(text: &str, low: i64, high: i64, what: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(n) if (low..=high).contains(&n) => Ok(n),
        _ => Err(format!("{what} goes from {low} to {high}")),
    }
}

fn level(text: &str) -> Result<i32, String> {
    bounded(text, -7, 22, "the level").and_then(|n| i32::try_from(n).map_err(|e| e.to_string()))
}

fn threads(text: &str) -> Result<usize, String> {
    bounded(text, 0, 256, "the number of threads")
        .and_then(|n| usize::try_from(n).map_err(|e| e.to_string()))
}

/// Parses a size in MiB and returns it in bytes.
fn cache_size(text: &str) -> Result<usize, String> {
    let mib = bounded(text, 0, 1 << 20, "the cache size in MiB")?;
    usize::try_from(mib << 20).map_err(|e| e.to_string())
}

/// Parses a time in seconds, which can have a fraction.
fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|s| (0.0..=86400.0).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "the timeout is a number of seconds from 0 to 86400".to_string())
}

/// Parses an interval in seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|s| (0.1..=86400.0).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "the interval is a number of seconds from 0.1 to 86400".to_string())
}

/// Parses a number of hours.
fn hours(text: &str) -> Result<Duration, String> {
    let hours = text.parse::<f64>().ok();
    hours
        .filter(|h| (1.0..=100_000.0).contains(h))
        .map(|h| Duration::from_secs_f64(h * 3600.0))
        .ok_or_else(|| "this is a number of hours from 1 to 100000".to_string())
}

/// Parses a moment. Returns milliseconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    use chrono::{DateTime, NaiveDateTime};
    let zoned = DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_str(text, "%F %T%.f%:z"));
    let plain = || {
        ["%F %T%.f", "%FT%T%.f", "%F %H:%M", "%FT%H:%M"]
            .iter()
            .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
            .map(|time| time.and_utc().timestamp_millis())
    };
    let millis = zoned
        .ok()
        .map(|time| time.timestamp_millis())
        .or_else(plain);
    millis
        .and_then(|millis| u64::try_from(millis).ok())
        .ok_or_else(|| "a moment is a date and a time, such as '2026-11-27 14:00:00' (UTC) or 2026-11-27T15:00:00+01:00".to_string())
}

/// Parses the name and the value of a parameter.
fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim_start_matches([':', '@', '$', '?']).is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("a parameter is NAME=VALUE".to_owned()),
    }
}

/// Parses the types of columns.
fn types(text: &str) -> Result<Types, String> {
    let pair = |pair: &str| {
        let (column, wanted) = pair.rsplit_once('=').unwrap_or((pair, ""));
        let known = ["INTEGER", "REAL", "TEXT"];
        let known = known.into_iter().find(|t| t.eq_ignore_ascii_case(wanted));
        let known = known.filter(|_| !column.is_empty());
        known
            .map(|known| (column.to_owned(), known))
            .ok_or_else(|| {
                "types are auto, text, or COLUMN=TYPE,... with INTEGER, REAL or TEXT".to_owned()
            })
    };
    match text {
        "auto" => Ok(Types::Auto(Vec::new())),
        "text" => Ok(Types::Text),
        _ => Ok(Types::Auto(
            text.split(',').map(pair).collect::<Result<_, _>>()?,
        )),
    }
}

/// Finds an encoding by one of its names.
fn encoding(text: &str) -> Result<&'static Encoding, String> {
    Encoding::for_label(text.as_bytes()).ok_or_else(|| {
        "this encoding is not known; known ones are utf-8, utf-16le, utf-16be, latin1, windows-1252, shift_jis and the others of the web".to_owned()
    })
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] => Ok(*byte),
        _ => Err("a delimiter is one ASCII character, or \\t for a tab".to_string()),
    }
}

fn quote(text: &str) -> Result<Quote, String> {
    match text {
        "none" => Ok(Quote::None),
        "\"" => Ok(Quote::Double),
        _ => Err("a quote is '\"', or none".to_string()),
    }
}

fn memory(text: &str) -> Result<u64, String> {
    let mib = bounded(text, 1, 1 << 20, "the memory in MiB")?;
    u64::try_from(mib).map_err(|e| e.to_string())
}

fn page_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if n.is_power_of_two() && (512..=65536).contains(&n) => Ok(n),
        _ => Err("a page size is a power of two from 512 to 65536".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_finds_no_contradiction() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bounds() {
        assert_eq!(level("-7"), Ok(-7));
        assert_eq!(level("22"), Ok(22));
        assert!(level("23").is_err() && level("-8").is_err() && level("x").is_err());
        assert_eq!(page_size("65536"), Ok(65536));
        assert!(
            page_size("0").is_err() && page_size("3000").is_err() && page_size("131072").is_err()
        );
        assert_eq!(cache_size("1"), Ok(1 << 20));
        assert_eq!(timeout("0.5"), Ok(Duration::from_millis(500)));
        assert!(timeout("-1").is_err() && timeout("NaN").is_err() && timeout("x").is_err());
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert!(interval("0").is_err() && hours("0.5").is_err() && hours("inf").is_err());
    }

    #[test]
    fn a_parameter_has_a_name() {
        assert_eq!(parameter(":a=b=c"), Ok((":a".into(), "b=c".into())));
        assert!(parameter("a").is_err() && parameter("=b").is_err() && parameter(":=b").is_err());
    }

    #[test]
    fn moments_are_utc_unless_they_name_an_offset() {
        let noon = 1_795_780_800_000;
        for text in [
            "2026-11-27 12:00:00",
            "2026-11-27 12:00",
            "2026-11-27T12:00:00",
            "2026-11-27T12:00:00Z",
            "2026-11-27T13:00:00+01:00",
            "2026-11-27 13:00:00+01:00",
            "2026-11-27 12:00:00.000",
        ] {
            assert_eq!(moment(text), Ok(noon), "{text}");
        }
        assert_eq!(moment("2026-11-27 12:00:00.25"), Ok(noon + 250));
        for text in [
            "",
            "yesterday",
            "2026-11-27",
            "2026-13-27 12:00",
            "1900-01-01 00:00",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
