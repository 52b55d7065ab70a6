//! Files that are not loaded, or not in the format that is named for them, recognised by their first
//! bytes, and what to do with them.
//!
//! A mark that text can begin with counts only if a byte behind it is one that text does not have.
//! What a text seems to be is only said of one that the named format cannot read: [`other_text`].

use crate::args::FileFormat;
use densite_tools::is_database;

/// What a file is.
enum Kind {
    /// Compressed as a whole, and by which command it is decompressed to standard output.
    Compressed(&'static str, &'static str),
    /// An archive, and the command that prints one of its files.
    Archive(&'static str, &'static str),
    Spreadsheet(&'static str),
    /// A file of tables in a format of its own.
    Table(&'static str),
    Parquet,
    Database,
}

/// Why a file with this beginning cannot be loaded in a format, or in any; `None` if it can, as far
/// as its beginning shows.
pub(super) fn problem(first: &[u8], format: Option<FileFormat>) -> Option<String> {
    let option = format.map_or("csv", FileFormat::name);
    let piped = |command: &str| format!("{command} | densite load DB TABLE - --format {option}");
    Some(match (kind(first)?, format) {
        (Kind::Parquet, Some(FileFormat::Parquet)) => return None,
        // It is not read from its beginning, so it cannot come through a pipe.
        (Kind::Compressed(name, command), Some(FileFormat::Parquet)) => format!(
            "is compressed with {name}, but load reads only gzip and zstd; run {command} FILE > t.parquet first"
        ),
        (Kind::Compressed(name, command), _) => format!(
            "is compressed with {name}, but load reads only gzip and zstd; run {}",
            piped(&format!("{command} FILE"))
        ),
        (Kind::Archive(name, _), Some(FileFormat::Parquet)) => {
            format!("is {name} archive; unpack it, and load the files in it")
        }
        (Kind::Archive(name, command), _) => format!(
            "is {name} archive; unpack it, or run {}",
            piped(&format!("{command} NAME"))
        ),
        (Kind::Spreadsheet(name), _) => {
            format!("is a spreadsheet ({name}); save its sheet as CSV, and load that")
        }
        (Kind::Table(name), _) => format!(
            "is {name} file, which load does not read; write its rows as Parquet, CSV or JSON lines"
        ),
        (Kind::Parquet, _) => format!("is a Parquet file; {}", advice(FileFormat::Parquet)),
        (Kind::Database, _) => "is a database; copy its tables with densite sql DB \
             \"ATTACH 'FILE' AS x; CREATE TABLE t AS SELECT * FROM x.t\""
            .to_owned(),
    })
}

fn kind(first: &[u8]) -> Option<Kind> {
    let begins = |mark: &[u8]| first.starts_with(mark);
    // Behind a mark that is text, a byte shows that the file is none.
    let is_binary = |mark: &[u8]| {
        let is_control = |b: &u8| *b < b' ' && !matches!(b, b'\t' | b'\n' | b'\r');
        let rest = first.strip_prefix(mark);
        rest.is_some_and(|rest| rest.iter().take(32).any(is_control))
    };
    Some(match first {
        _ if begins(b"\xfd7zXZ\0") => Kind::Compressed("xz", "xz -dc"),
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
            if rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90") =>
        {
            Kind::Compressed("bzip2", "bzip2 -dc")
        }
        _ if begins(b"\x04\x22\x4d\x18") || begins(b"\x02\x21\x4c\x18") => {
            Kind::Compressed("lz4", "lz4 -dc")
        }
        _ if begins(b"\x5d\0\0") => Kind::Compressed("lzma", "xz -dc"),
        _ if begins(b"LZIP\x01") => Kind::Compressed("lzip", "lzip -dc"),
        _ if begins(b"\x89LZO\0\r\n\x1a\n") => Kind::Compressed("lzop", "lzop -dc"),
        _ if begins(b"\x1f\x9d") => Kind::Compressed("compress", "gzip -dc"),
        _ if begins(b"\xff\x06\0\0sNaPpY") => Kind::Compressed("snappy", "snzip -dc"),
        _ if begins(b"PK\x03\x04") || begins(b"PK\x05\x06") => zip(first),
        _ if begins(b"7z\xbc\xaf\x27\x1c") => Kind::Archive("a 7z", "7z e -so FILE"),
        _ if begins(b"Rar!\x1a\x07") => Kind::Archive("a RAR", "unrar p -inul FILE"),
        _ if first.get(257..262) == Some(b"ustar") => Kind::Archive("a tar", "tar -xOf FILE"),
        _ if begins(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") => Kind::Spreadsheet("XLS"),
        _ if begins(b"ARROW1\0\0") || begins(b"\xff\xff\xff\xff") => Kind::Table("an Arrow"),
        _ if is_binary(b"FEA1") => Kind::Table("a Feather"),
        _ if is_binary(b"ORC") => Kind::Table("an ORC"),
        _ if begins(b"Obj\x01") => Kind::Table("an Avro"),
        _ if begins(b"\x89HDF\r\n\x1a\n") => Kind::Table("an HDF5"),
        _ if is_binary(b"PAR1") || is_binary(b"PARE") => Kind::Parquet,
        _ if is_database(first) => Kind::Database,
        _ => return None,
    })
}

/// Why a text with this beginning cannot be read in the format, and in which one it seems to be;
/// `None` if it can, or if that is not clear. CSV has quotes, if a field can be quoted.
pub(super) fn other_text(first: &[u8], format: FileFormat, has_quotes: bool) -> Option<String> {
    let is_json = |format| matches!(format, FileFormat::Json | FileFormat::Jsonl);
    let seems = match first {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] if format != FileFormat::Parquet => return None,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "text in UTF-16; give --format csv, json or jsonl".to_owned()
        }
        _ => match (text_of(first)?, format) {
            (seen, format) if seen == format || (is_json(seen) && is_json(format)) => return None,
            (_, FileFormat::Csv) if !has_quotes => return None,
            (seen, _) => format!("{}; {}", seen.title(), advice(seen)),
        },
    };
    Some(format!("is not {}: it seems to be {seems}", format.title()))
}

/// How to load a file in another format.
fn advice(format: FileFormat) -> String {
    let name = format.name();
    format!("give --format {name} (for .import: a name that ends in .{name}, without --csv)")
}

/// The format of a text, by its beginning.
///
/// - JSON begins with an object, or with an array of objects. CSV with quotes never does: there, a
///   quote is only at the begin of a field, and nothing but a delimiter is behind the closing one.
/// - CSV has one of the usual delimiters in its first line, which is no JSON.
fn text_of<'a>(first: &'a [u8]) -> Option<FileFormat> {
    let is_text = |b: &u8| !b.is_ascii_control() || matches!(b, b'\t' | b'\n' | b'\r' | b'\x0c');
    if !first.iter().all(is_text) {
        return None;
    }
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first);
    let text = text.trim_ascii_start();
    let line = text.split(|b| matches!(b, b'\n' | b'\r')).next()?;
    let behind = |text: &'a [u8]| text.get(1..).unwrap_or_default().trim_ascii_start();
    let value = || serde_json::from_slice::<serde_json::Value>(line);
    match text.first()? {
        b'{' if behind(text).starts_with(b"\"") => Some(match value() {
            Ok(_) => FileFormat::Jsonl,
            Err(_) => FileFormat::Json,
        }),
        b'[' if behind(text).starts_with(b"{") && behind(behind(text)).starts_with(b"\"") => {
            Some(FileFormat::Json)
        }
        b'{' | b'[' => None,
        _ if value().is_ok() => None,
        _ => line
            .iter()
            .any(|b| matches!(b, b',' | b';' | b'\t' | b'|'))
            .then_some(FileFormat::Csv),
    }
}

/// A zip archive: one of files, or a spreadsheet, by the name of its first file.
fn zip(first: &[u8]) -> Kind {
    const HEADER: usize = 30;
    let behind = first.get(HEADER..).unwrap_or_default();
    let begins = |name: &str| behind.starts_with(name.as_bytes());
    match () {
        () if begins("[Content_Types].xml") || begins("_rels/") || begins("xl/") => {
            Kind::Spreadsheet("XLSX")
        }
        () if begins("mimetypeapplication/vnd.oasis.opendocument") => Kind::Spreadsheet("ODS"),
        () => Kind::Archive("a zip", "unzip -p FILE"),
    }
}

/// The encoding that the zero bytes of a text without a byte order mark point to: most characters
/// of a line of names have one in UTF-16.
pub(super) fn unmarked(first: &[u8]) -> Option<&'static str> {
    const PAIRS: usize = 8;
    let pairs = first.chunks_exact(2).take(PAIRS);
    let mut is_little = pairs.len() > 1;
    let mut is_big = is_little;
    for pair in pairs {
        is_little &= matches!(pair, [a, 0] if *a != 0);
        is_big &= matches!(pair, [0, a] if *a != 0);
    }
    match (is_little, is_big) {
        (true, _) => Some("utf-16le"),
        (_, true) => Some("utf-16be"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_taken_for_another_format() {
        for text in [
            &b"ORCID,name\n0000,x\n"[..],
            b"PAR1,PAR2\r\n1,2\n",
            b"BZh9,a\n",
            b"PK,a\n1,2\n",
            b"FEA1\tx\n",
            b"7z,b\n",
            b"Obj,a\n",
            b"Rar!,a\n",
            b"LZIP,x\n",
            b"SQLite format 3,a\n",
            b"a",
            b"",
            b"a\0b\0c",
            b"\0",
        ] {
            assert_eq!(problem(text, Some(FileFormat::Csv)), None, "{text:?}");
        }
        for text in [&b"a,b\n1,2\n"[..], b"a\0", b"", b"a\0,b\0", b"\0\0\0\0"] {
            assert_eq!(unmarked(text), None, "{text:?}");
        }
        assert_eq!(unmarked(b"a\0,\0b\0\n\0"), Some("utf-16le"));
        assert_eq!(unmarked(b"\0a\0\n"), Some("utf-16be"));
    }

    #[test]
    fn a_text_of_another_format_is_told_only_if_the_named_one_cannot_read_it() {
        use FileFormat::{Csv, Json, Jsonl, Parquet};
        let seems = |text: &str, format, has_quotes| {
            let said = other_text(text.as_bytes(), format, has_quotes)?;
            let option = said.split("--format ").nth(1)?;
            Some(option.split(' ').next()?.to_owned())
        };
        for (text, format, wanted) in [
            ("a,b\n1,2\n", Csv, None),
            ("a,b\n1,2\n", Json, Some("csv")),
            ("a;b\n1;2\n", Jsonl, Some("csv")),
            ("a\tb\r\n1\t2\r\n", Parquet, Some("csv")),
            ("\u{feff}a,b\n", Parquet, Some("csv")),
            ("{\"a\": 1}\n{\"a\": 2}\n", Csv, Some("jsonl")),
            ("{\"a\": 1}\n", Parquet, Some("jsonl")),
            ("{\n \"a\": 1\n}\n", Csv, Some("json")),
            (" [{\"a\": 1}]", Csv, Some("json")),
            ("[\n{\"a\": 1}]", Parquet, Some("json")),
            ("{\"a\": 1}\n", Json, None),
            ("[{\"a\": 1}]", Jsonl, None),
            // They can be CSV, or say nothing.
            ("{},b\n", Csv, None),
            ("[]", Csv, None),
            ("[{a},b\n", Csv, None),
            ("{a},b\n", Csv, None),
            ("[a],b\n", Csv, None),
            ("[1,2]\n", Csv, None),
            ("name\nx\n", Parquet, None),
            ("name\nx\n", Json, None),
            ("\"a,b\"\n", Json, None),
            ("12\n", Jsonl, None),
            ("", Parquet, None),
            ("a,b\0\n", Parquet, None),
        ] {
            assert_eq!(
                seems(text, format, true).as_deref(),
                wanted,
                "{text:?}, {format:?}"
            );
        }
        assert_eq!(seems("{\"a\": 1}\tx\n", Csv, false), None);
        let little = other_text(b"\xff\xfea\0,\0b\0", Parquet, true).expect("text");
        assert!(little.contains("UTF-16"), "{little}");
        assert_eq!(other_text(b"\xff\xfea\0,\0b\0", Csv, true), None);
    }
}
