//! `densite load` of files that it does not read says what they are, and what to do.

use crate::common::{at, densite, piped, temp, write};

fn tar() -> Vec<u8> {
    let mut block = vec![0; 1024];
    block[..5].copy_from_slice(b"a.csv");
    block[257..262].copy_from_slice(b"ustar");
    block[512..516].copy_from_slice(b"a,b\n");
    block
}

#[test]
fn other_formats_are_named_with_what_to_do() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let gzip = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, bytes).expect("memory");
        gzip.finish().expect("memory")
    };
    let zip = |name: &str| [&b"PK\x03\x04"[..], &[0; 26], name.as_bytes(), &[0; 40]].concat();
    let from_pipe = "| densite load DB TABLE - --format csv";
    for (bytes, words) in [
        (
            b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46".to_vec(),
            &[
                "compressed with xz",
                "gzip and zstd",
                "run xz -dc FILE",
                from_pipe,
            ][..],
        ),
        (
            b"BZh91AY&SY\x9d\xf2".to_vec(),
            &["compressed with bzip2", "run bzip2 -dc FILE", from_pipe],
        ),
        (
            b"\x04\x22\x4d\x18\x64\x40\xa7".to_vec(),
            &["compressed with lz4", "run lz4 -dc FILE", from_pipe],
        ),
        (
            zip("a.csv"),
            &["is a zip archive", "run unzip -p FILE NAME |", from_pipe],
        ),
        (gzip(&zip("a.csv")), &["is a zip archive"]),
        (
            zip("[Content_Types].xml"),
            &["spreadsheet (XLSX)", "as CSV"],
        ),
        (
            zip("mimetypeapplication/vnd.oasis.opendocument.spreadsheet"),
            &["spreadsheet (ODS)", "as CSV"],
        ),
        (
            b"7z\xbc\xaf\x27\x1c\0\x04".to_vec(),
            &["is a 7z archive", "7z e -so FILE NAME |"],
        ),
        (tar(), &["is a tar archive", "tar -xOf FILE NAME |"]),
        (gzip(&tar()), &["is a tar archive", "tar -xOf FILE NAME |"]),
        (
            b"ARROW1\0\0\xff\xff\xff\xff".to_vec(),
            &["is an Arrow file", "Parquet"],
        ),
        (b"FEA1\0\0\0\0\x01".to_vec(), &["is a Feather file"]),
        (b"ORC\x0a\x06\x08\x01".to_vec(), &["is an ORC file"]),
        (b"Obj\x01\x04\x16avro.schema".to_vec(), &["is an Avro file"]),
        (
            b"PAR1\x15\x04\x15\x20".to_vec(),
            &["is a Parquet file", "--format parquet"],
        ),
        (
            b"SQLite format 3\0\x10\0".to_vec(),
            &["is a database", "ATTACH"],
        ),
        (
            b"a\0,\0b\0\n\x001\0,\x002\0\n\0".to_vec(),
            &["utf-16le", "--encoding utf-16le"],
        ),
        (b"\0a\0,\0b\0\n".to_vec(), &["--encoding utf-16be"]),
    ] {
        for name in ["x.csv", "x.jsonl"] {
            let file = at(&dir, name);
            std::fs::write(&file, &bytes).expect("written");
            let mut ran = densite(&["load", &db, "t", &file, "--format", "csv"]).expect(1);
            for words in words {
                ran = ran.says(words);
            }
            ran.says(name).says("nothing was loaded");
            densite(&["load", &db, "t", &file]).expect(1).says(words[0]);
        }
    }
    assert!(!std::path::Path::new(&db).exists());
}

#[test]
fn a_name_that_says_nothing_is_no_reason_to_hide_what_the_file_is() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let file = at(&dir, "x.csv.xz");
    std::fs::write(&file, b"\xfd7zXZ\0\0\x04").expect("written");
    densite(&["load", &db, "t", &file])
        .expect(1)
        .says("compressed with xz")
        .says("xz -dc FILE | densite load DB TABLE - --format csv");
    densite(&["load", &db, "t", &file, "--format", "parquet"])
        .expect(1)
        .says("compressed with xz")
        .says("run xz -dc FILE > t.parquet first");
    std::fs::write(&file, b"a,b\n").expect("written");
    densite(&["load", &db, "t", &file])
        .expect(2)
        .says("the format is not clear from the name");
    piped(
        &["load", &db, "t", "-", "--format", "csv"],
        b"\xfd7zXZ\0\0\x04",
    )
    .expect(1)
    .says("compressed with xz");
}

#[test]
fn zstd_that_begins_with_a_frame_to_skip_is_read() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let frame = zstd::encode_all(&b"a,b\n1,2\n"[..], 3).expect("memory");
    let bytes = [&b"\x50\x2a\x4d\x18\x04\0\0\0\0\0\0\0"[..], &frame].concat();
    piped(&["load", &db, "t", "-", "--format", "csv"], &bytes).expect(0);
}

/// The name or the option names another format than that of the file.
#[test]
fn a_text_of_another_format_is_named() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let csv = "id,name\n1,a\n";
    let lines = "{\"id\": 1}\n{\"id\": 2}\n";
    let array = "[\n {\"id\": 1},\n {\"id\": 2}\n]\n";
    let pretty = "{\n \"id\": 1\n}\n";
    for (text, declared, format) in [
        (csv, "parquet", "csv"),
        (csv, "json", "csv"),
        (csv, "jsonl", "csv"),
        (lines, "parquet", "jsonl"),
        (lines, "csv", "jsonl"),
        (array, "parquet", "json"),
        (array, "csv", "json"),
        (pretty, "csv", "json"),
    ] {
        let plain = write(&dir, &format!("x.{declared}"), text);
        let zstd = zstd::encode_all(text.as_bytes(), 3).expect("memory");
        let zstd = write(&dir, &format!("x.{declared}.zst"), &zstd);
        let other = write(&dir, "x.txt", text);
        for args in [
            &["load", &db, "t", &plain][..],
            &["load", &db, "t", &zstd],
            &["load", &db, "t", &other, "--format", declared],
        ] {
            let ran = densite(args).expect(1);
            ran.says("it seems to be ")
                .says(&format!("give --format {format} "))
                .says("nothing was loaded");
        }
        densite(&["load", &db, "t", &plain, "--format", format]).expect(0);
        densite(&["sql", &db, "DROP TABLE t"]).expect(0);
    }
    // A text that can be one column of CSV is loaded.
    let quoted = write(&dir, "y.tsv", "{\"a\": 1}\tx\n{\"a\": 2}\ty\n");
    let options = ["--quote", "none", "--no-header"];
    densite(&[&["load", &db, "t", &quoted][..], &options].concat()).expect(0);
    // In the shell, the name decides.
    let import = format!(".import {} u", at(&dir, "x.parquet"));
    densite(&["sql", &db, &import])
        .expect(1)
        .says("for .import: a name that ends in .json");
}
