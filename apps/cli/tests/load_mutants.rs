//! `densite load` of mutated Parquet, CSV and JSON lines files gives rows or one message with a
//! documented code, and never an internal error.
//! `DENSITE_SEED=n` sets the first seed. The long run reads `DENSITE_MUTANTS`, the number of
//! mutants of each format (10,000).

use crate::common::{DENSITE, at, temp};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::process::Command;
use std::sync::Arc;

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % n.max(1) as u64).expect("below a usize")
    }
}

fn mutant(whole: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 1 + random.below(9)).min(bytes.len()))),
            2 => bytes.insert(at, b"\",\n\r\\{}\t\0\xff"[random.below(10)]),
            3 => bytes.extend_from_slice(&whole[..random.below(whole.len())]),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [
                        *byte ^ (1 << random.below(8)),
                        0xff,
                        0x80,
                        random.below(256) as u8,
                    ][random.below(4)];
                }
            }
        }
    }
    bytes
}

fn parquet_file() -> Vec<u8> {
    let schema = "message rows {
        required int64 id; optional binary name (utf8); required double score;
        required int64 at (timestamp(micros, true)); required binary price (decimal(9, 2));
        optional group deep (list) { repeated group list { optional int64 element; } }
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::default()).expect("writer");
    for _ in 0..2 {
        let mut group = writer.next_row_group().expect("group");
        macro_rules! column {
            ($kind:ty, $values:expr, $levels:expr, $repeats:expr) => {{
                let mut column = group.next_column().expect("next").expect("a column");
                let typed = column.typed::<$kind>();
                typed
                    .write_batch($values, $levels, $repeats)
                    .expect("written");
                column.close().expect("closed");
            }};
        }
        let text = [ByteArray::from("abc"), ByteArray::from("d")];
        column!(Int64Type, &[3, 1, 2], None, None);
        column!(ByteArrayType, &text, Some(&[1, 0, 1]), None);
        column!(DoubleType, &[0.5, 1.5, 2.5], None, None);
        column!(Int64Type, &[1_700_000_000_123_456, 0, -1], None, None);
        column!(
            ByteArrayType,
            &vec![ByteArray::from(vec![0xff, 0x85]); 3],
            None,
            None
        );
        column!(
            Int64Type,
            &[7, 8, 9],
            Some(&[3, 3, 0, 3]),
            Some(&[0, 1, 0, 0])
        );
        group.close().expect("closed");
    }
    writer.close().expect("closed");
    file
}

fn run(format: &str, whole: &[u8], mutants: u64) {
    let dir = temp();
    let (file, db) = (at(&dir, "in"), at(&dir, "new.db"));
    let first = number("DENSITE_SEED", 1);
    let mut counts = std::collections::BTreeMap::<_, u64>::new();
    for seed in first..first + mutants {
        std::fs::write(&file, mutant(whole, seed)).expect("written");
        let done = Command::new("timeout")
            .args([
                "60", DENSITE, "load", &db, "t", &file, "--format", format, "-q",
            ])
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&done.stderr);
        let code = done.status.code();
        let what = format!("DENSITE_SEED={seed} {format}: {code:?} {said}");
        assert!(matches!(code, Some(0 | 1 | 5)), "{what}");
        let is_there = std::path::Path::new(&db).exists();
        assert_eq!(is_there, code == Some(0), "{what}");
        if is_there {
            std::fs::remove_file(&db).expect("removed");
        } else {
            assert_eq!(said.lines().count(), 1, "{what}");
        }
        *counts.entry(code.unwrap_or_default()).or_default() += 1;
    }
    println!("{format}: {mutants} mutants from seed {first}, by exit code {counts:?}");
}

const CSV: &[u8] =
    b"id,name,\"a, b\"\n1,\"x \"\"y\"\" z\",2.5\n2,,\"two\nlines\"\r\n3,\xc3\xa4,-1e9\n4,\"\",x\n";
const JSON: &[u8] = b"{\"a\":1,\"b\":\"x\\u00e4\\\"\"}\n{\"b\":null,\"c\":[1,{\"d\":2}],\"a\":-1.5e3}\n\n{\"a\":9223372036854775807}\n";

#[test]
fn mutants_of_files_load_rows_or_give_an_error() {
    for (format, whole) in [
        ("parquet", &parquet_file()[..]),
        ("csv", CSV),
        ("jsonl", JSON),
    ] {
        run(format, whole, 40);
    }
}

/// Part of `make fuzz`.
#[test]
#[ignore = "long: DENSITE_MUTANTS of each format"]
fn long_fuzz_load() {
    let mutants = number("DENSITE_MUTANTS", 10_000);
    for (format, whole) in [
        ("parquet", &parquet_file()[..]),
        ("csv", CSV),
        ("jsonl", JSON),
    ] {
        run(format, whole, mutants);
    }
}
