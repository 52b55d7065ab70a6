//! Files that SQLite writes.

use densite_sqlite_format::page::{Kind, Page, next_overflow};
use densite_sqlite_format::record::{self, Value};
use densite_sqlite_format::{AutoVacuum, Encoding, Header, freelist, schema, wal};
use rusqlite::Connection;

/// The bytes of a database that these statements make, and of its WAL.
fn made(sql: &str) -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(sql).expect("runs");
    let read = |end: &str| std::fs::read(dir.path().join(format!("a.db{end}"))).unwrap_or_default();
    (read(""), read("-wal"))
}

fn page_of<'a>(bytes: &'a [u8], header: &Header, page: u32) -> &'a [u8] {
    &bytes[header.offset_of(page) as usize..][..header.page_size as usize]
}

#[test]
fn the_header_says_what_the_pragmas_say() {
    let (bytes, _) = made(
        "PRAGMA page_size = 1024; PRAGMA encoding = 'UTF-16be'; PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA user_version = -7; PRAGMA application_id = 99; CREATE TABLE t(a);
         INSERT INTO t VALUES(zeroblob(9000)); DELETE FROM t;",
    );
    let header = Header::parse(&bytes).expect("a header");
    let wanted = Header {
        page_count: bytes.len() as u32 / 1024,
        free_trunk: header.free_trunk,
        free_pages: header.free_pages,
        auto_vacuum: AutoVacuum::Incremental,
        encoding: Encoding::Utf16be,
        user_version: -7,
        application_id: 99,
        ..Header::new(1024)
    };
    assert_eq!(header, wanted);
    let count = header.pages_in(bytes.len() as u64);
    let list = freelist::list(count, &header, |page, buf| {
        buf.copy_from_slice(page_of(&bytes, &header, page));
        Ok::<(), ()>(())
    });
    let list = list.expect("memory").expect("a whole list");
    assert!(list.all.len() > 5 && list.all.len() == u64::from(header.free_pages));
    assert!(list.all.contains(header.free_trunk) && !list.leaves.contains(header.free_trunk));
}

#[test]
fn the_schema_and_a_row_with_overflow_pages_are_read() {
    let text = "ä".repeat(3000);
    let (bytes, _) = made(&format!(
        "PRAGMA page_size = 512; CREATE TABLE t(a, b, c);
         INSERT INTO t VALUES(-70000, 2.5, '{text}');"
    ));
    let header = Header::parse(&bytes).expect("a header");
    let mut page = Page::new();
    let mut records = |number: u32| {
        let of_page = page_of(&bytes, &header, number);
        assert!(page.parse(of_page, header.usable as usize, number == 1));
        assert_eq!(page.kind, Kind::TableLeaf);
        let cell = page.cells[0];
        let local = cell.local_at as usize..(cell.local_at + cell.local_len) as usize;
        let (mut record, mut next) = (of_page[local].to_vec(), cell.overflow);
        while next != 0 {
            let chained = page_of(&bytes, &header, next);
            let left = cell.payload as usize - record.len();
            record.extend(&chained[4..][..left.min(header.usable as usize - 4)]);
            next = next_overflow(chained).expect("a number");
        }
        record
    };
    let row = records(1);
    let row = record::values(&row).and_then(|values| schema::Row::of(&values, header.encoding));
    let row = row.expect("a row of the schema");
    assert_eq!((&*row.kind, &*row.name), ("table", "t"));
    assert_eq!(row.sql.as_deref(), Some("CREATE TABLE t(a, b, c)"));
    assert!(row.is_table() && !row.is_internal());
    let record = records(row.root);
    let wanted = [
        Value::Integer(-70000),
        Value::Real(2.5),
        Value::Text(text.as_bytes()),
    ];
    assert_eq!(record::values(&record).as_deref(), Some(&wanted[..]));
}

#[test]
fn all_frames_of_a_wal_are_valid_until_a_byte_changes() {
    let (bytes, log) = made(
        "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; CREATE TABLE t(a);
         INSERT INTO t VALUES(zeroblob(3000));",
    );
    assert!(Header::parse(&bytes).is_some_and(|header| header.wal));
    let frames = |log: &[u8]| -> Vec<wal::Frame> {
        let header = log.first_chunk().expect("a header");
        assert_eq!(wal::page_size(log), Some(512));
        let mut chain = wal::Chain::begin(header, 512).expect("a WAL");
        let frames = log[wal::HEADER_LEN..].chunks_exact(wal::FRAME_HEADER_LEN + 512);
        frames.map_while(|frame| chain.next(frame)).collect()
    };
    let all = frames(&log);
    assert_eq!(all.len(), (log.len() - 32) / (24 + 512));
    assert_eq!(all[0].page, 1);
    assert_eq!(all.iter().filter(|frame| frame.commit != 0).count(), 2);
    let mut other = log.clone();
    other[32 + 24 + 512 + 30] ^= 1;
    assert_eq!(frames(&other), all[..1]);
    let header = log.first_chunk().expect("a header");
    assert!(wal::Chain::begin(header, 1024).is_none(), "another size");
}
