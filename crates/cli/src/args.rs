//! What may be typed.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Stores SQLite databases compressed, and turns either form into the other.
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
                        130 interrupted."
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
    /// Turn a plain SQLite database into a compressed one
    Compress(CompressArgs),
    /// Turn a compressed database into a plain SQLite one
    Decompress(DecompressArgs),
    /// Tell how large a database is and what is in its file
    Info(InfoArgs),
    /// Verify every stored page, the map and SQLite's own integrity check
    Check(DbArg),
    /// Rewrite a database without what was deleted from it
    Vacuum(VacuumArgs),
    /// Draw where the space of a database is, and what would bring it back
    Report(ReportArgs),
    /// Run SQL on a database, compressed or plain
    Sql(SqlArgs),
    /// Load rows from a CSV, JSON lines or Parquet file into a table, all or none
    Load(LoadArgs),
    /// Look at a database's log, and at its subscribers
    #[command(subcommand)]
    Log(LogVerb),
}

#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// The plain SQLite database
    pub(crate) src: PathBuf,
    /// The compressed database to create; without it SRC is replaced once its copy has been verified
    pub(crate) dst: Option<PathBuf>,
    /// Compress for keeping rather than for use: smallest size, slower reads
    #[arg(long)]
    pub(crate) archive: bool,
    /// Compression level, -7 (fastest) to 22 (smallest)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Option<i32>,
    /// Rewrite the database with pages of this many bytes, a power of two from 512 to 65536
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub(crate) page_size: Option<u32>,
    /// Background threads; 0 does all in line [default: one less than the cores, at least 1]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Memory for decoded pages, in MiB [default: 64]
    #[arg(long, value_name = "MIB", value_parser = cache_size)]
    pub(crate) cache_size: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct DecompressArgs {
    /// The compressed database
    pub(crate) src: PathBuf,
    /// The plain database to create; without it SRC is replaced once its copy has been verified
    pub(crate) dst: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DbArg {
    /// The database, compressed or plain
    pub(crate) db: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The database, compressed or plain
    pub(crate) db: PathBuf,
    /// Show all tables and indexes, and the encodings of their columns
    #[arg(long)]
    pub(crate) columns: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VacuumArgs {
    /// The database, compressed or plain
    pub(crate) path: PathBuf,
    /// Say what it would give back and need, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long another connection's lock is waited for, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The database, compressed or plain
    pub(crate) db: PathBuf,
    /// The page to write; an existing file is left as it is, unless --yes is given
    #[arg(long, short, value_name = "FILE.html")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The database, compressed or plain, or a file: URI
    pub(crate) db: String,
    /// The statements; read from stdin when left out
    pub(crate) sql: Option<String>,
    /// Make a missing file a new compressed database
    #[arg(long)]
    pub(crate) create: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogVerb {
    /// Tell how large the log is, how far it is applied, and where its subscribers are
    Status(DbArg),
    /// Add a subscriber: the log keeps what it has not acknowledged
    Subscribe(SubscribeArgs),
    /// Remove a subscriber: nothing is kept for it any more
    Unsubscribe(UnsubscribeArgs),
    /// Give back what is applied durably and acknowledged by all subscribers
    Prune(DbArg),
    /// Print the last rows of the log
    Tail(TailArgs),
    /// Read everything, and name what is damaged
    Check(LogCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SubscribeArgs {
    /// The database
    pub(crate) db: PathBuf,
    /// Name of the subscriber
    pub(crate) name: String,
    /// Where it begins: with the first row that is still there, or with the next one
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
    /// Rows printed at most
    #[arg(long, short = 'n', value_name = "ROWS", default_value = "10")]
    pub(crate) max: u64,
    /// Begin behind the row of this number, rather than near the end
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Go on with rows as they come, until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogCheckArgs {
    /// The database
    pub(crate) db: PathBuf,
    /// Of a damaged log keep what can be read; tells what is lost, and asks. Nobody else may have the log open
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// The database, compressed or plain, or a file: URI; a missing file becomes a compressed database
    pub(crate) db: String,
    /// The table; made with the file's columns if there is none
    pub(crate) table: String,
    /// The file; - is stdin
    pub(crate) file: PathBuf,
    /// What the file is [default: by the end of its name]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// CSV: the first line is a row; fields are the table's columns by their order
    #[arg(long)]
    pub(crate) no_header: bool,
    /// CSV: what is between fields, one character or \\t [default: a comma, in .tsv files a tab]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// CSV: what fields with delimiters, line ends or quotes are written in; none where quotes are text like any other
    #[arg(long, value_name = "QUOTE", default_value = "\"", value_parser = quote)]
    pub(crate) quote: Quote,
    /// CSV: fields with this text are NULL [default: none are]
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,
    /// Leave out rows that cannot be loaded, and tell how many
    #[arg(long)]
    pub(crate) skip_errors: bool,
    /// Memory for sorting rows by the table's key, in MiB
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = memory)]
    pub(crate) memory: u64,
}

/// Whether fields of a CSV file may be written in quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quote {
    None,
    Double,
}

impl Quote {
    /// The quote, where there is one.
    pub(crate) fn byte(self) -> Option<u8> {
        (self == Quote::Double).then_some(b'"')
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values
    Csv,
    /// A JSON object in each line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

impl FileFormat {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileFormat::Csv => "csv",
            FileFormat::Jsonl => "jsonl",
            FileFormat::Parquet => "parquet",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns in a frame, for reading
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// An array of objects for each result
    Json,
}

/// A whole number within bounds, or a sentence that says the bounds.
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

/// MiB in, bytes out.
fn cache_size(text: &str) -> Result<usize, String> {
    let mib = bounded(text, 0, 1 << 20, "the cache size in MiB")?;
    usize::try_from(mib << 20).map_err(|e| e.to_string())
}

/// Seconds, a fraction allowed.
fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|s| (0.0..=86400.0).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "the timeout goes from 0 to 86400 seconds".to_string())
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
    }
}
