//! Files that are not loaded, recognised by their first bytes, and what to do with them.
//!
//! A mark that text can begin with counts only if a byte behind it is one that text does not have.

use crate::args::FileFormat;

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
        (Kind::Parquet, _) => "is a Parquet file; give --format parquet".to_owned(),
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
        _ if begins(b"SQLite format 3\0") || begins(b"Densite format\r\n") => Kind::Database,
        _ => return None,
    })
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
}
