//! SQLite's own formats as a target: a database, a WAL and a record.

use crate::sample::{self, Tidy};
use crate::target::{Fields, Seeds, Target, put, row};
use densite_sqlite_format::page::{Page, pointers};
use densite_sqlite_format::{
    Encoding, HEADER_LEN, Header, MAGIC, fixed, freelist, record, schema, wal,
};
use std::collections::BTreeSet;

/// Bytes are read as a database, as a WAL and as a record. Every page that a well-formed page names
/// is among its pointers. A freelist has the pages of the header, in the database and none twice.
/// The values of a record lie in it.
pub(crate) const SQLITE: Target = Target {
    name: "sqlite",
    run: |bytes| {
        let record = values(bytes, Encoding::Utf8);
        record + 64 * frames(bytes) + (64 << 8) * database(bytes).unwrap_or(0)
    },
    repair,
    fields,
    seeds,
};

/// The page size of the seeds.
const SIZE: usize = 512;

fn database(bytes: &[u8]) -> Option<u64> {
    let header = Header::parse(bytes)?;
    let (size, usable) = (header.page_size, header.usable as usize);
    assert!(size.is_power_of_two() && usable >= 480 && usable <= size as usize);
    let count = header.pages_in(bytes.len() as u64);
    let page_of = |page: u32| &bytes[header.offset_of(page) as usize..][..size as usize];
    let list = freelist::list(count, &header, |page, buf| {
        buf.copy_from_slice(page_of(page));
        Ok::<(), ()>(())
    });
    let list = list.expect("memory does not fail");
    if let Some(list) = &list {
        assert_eq!(list.all.len(), u64::from(header.free_pages));
        assert!(list.all.pages().all(|page| (2..=count).contains(&page)));
        assert!(list.leaves.pages().all(|page| list.all.contains(page)));
        assert!(!list.all.contains(fixed::lock_page(size)));
    }
    let mut parsed = Page::new();
    let mut seen = 1 + u64::from(list.is_some());
    for number in 1..=count {
        let page = page_of(number);
        let mut named = BTreeSet::new();
        pointers(page, usable, number == 1, |page, _| {
            named.insert(page);
        });
        if !parsed.parse(page, usable, number == 1) {
            continue;
        }
        seen += 2;
        assert!(parsed.children().all(|page| named.contains(&page)));
        for cell in &parsed.cells {
            assert!(cell.overflow == 0 || named.contains(&cell.overflow));
            let local = &page[cell.local_at as usize..][..cell.local_len as usize];
            seen = (seen * 3 + values(local, header.encoding)) % (1 << 20);
        }
    }
    Some(seen)
}

/// The number of frames that count.
fn frames(bytes: &[u8]) -> u64 {
    let (Some(header), Some(size)) = (bytes.first_chunk(), wal::page_size(bytes)) else {
        return 0;
    };
    let Some(mut chain) = wal::Chain::begin(header, size as u32) else {
        return 1;
    };
    let frames = bytes[wal::HEADER_LEN..].chunks_exact(wal::FRAME_HEADER_LEN + size);
    let valid = frames.map_while(|frame| chain.next(frame));
    2 + valid
        .map(|frame| 1 + u64::from(frame.commit != 0))
        .sum::<u64>()
        % 200
}

fn values(bytes: &[u8], encoding: Encoding) -> u64 {
    let Some(values) = record::values(bytes) else {
        return 0;
    };
    let len = |value: &record::Value<'_>| match value {
        record::Value::Text(bytes) | record::Value::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    assert!(values.iter().map(len).sum::<usize>() <= bytes.len());
    let row = schema::Row::of(&values, encoding);
    1 + row.map_or(0, |row| 32 + u64::from(row.is_table())) + (values.len() % 32) as u64
}

/// Writes salts and checksums into the frames of a WAL.
fn repair(bytes: &mut [u8]) {
    let is_wal = bytes.starts_with(&[0x37, 0x7f, 0x06]) && bytes.len() >= wal::HEADER_LEN;
    let Some(size) = wal::page_size(bytes).filter(|_| is_wal) else {
        return;
    };
    let big_endian = bytes[3] & 1 == 1;
    let (header, frames) = bytes.split_at_mut(wal::HEADER_LEN);
    let mut sum = wal::checksum(big_endian, (0, 0), &header[..24]);
    put(header, 24, &bytes_of(sum));
    for frame in frames.chunks_exact_mut(wal::FRAME_HEADER_LEN + size) {
        put(frame, 8, &header[16..24]);
        sum = wal::checksum(big_endian, sum, &frame[..8]);
        sum = wal::checksum(big_endian, sum, &frame[wal::FRAME_HEADER_LEN..]);
        put(frame, 16, &bytes_of(sum));
    }
}

fn bytes_of((a, b): (u32, u32)) -> [u8; 8] {
    (u64::from(a) << 32 | u64::from(b)).to_be_bytes()
}

fn fields(bytes: &[u8]) -> Fields {
    let mut out = Fields::new();
    if bytes.starts_with(MAGIC) {
        row(16, &[2, 1, 1, 1, 3, 4, 4, 4, 4], &mut out);
        row(HEADER_LEN, &[1, 2, 2, 2, 1, 2, 2, 2], &mut out);
        for page in (SIZE..bytes.len().min(8 * SIZE)).step_by(SIZE) {
            row(page, &[4, 4, 4, 4], &mut out);
        }
    } else {
        row(0, &[4, 4, 4, 4, 8, 8, 4, 4, 8, 8], &mut out);
        out.extend((0..bytes.len().min(40)).map(|at| (at, 1)));
    }
    out
}

/// A database of five pages. Page 3 is the trunk of a freelist with one leaf.
fn a_database() -> Vec<u8> {
    let mut bytes = sample::rows(SIZE, true, Tidy::Yes, 3);
    bytes[16..24].copy_from_slice(&[2, 0, 1, 1, 0, 64, 32, 32]);
    put(&mut bytes, 32, &[0, 0, 0, 3, 0, 0, 0, 2]);
    let mut trunk = vec![0; SIZE];
    put(&mut trunk, 4, &[0, 0, 0, 1, 0, 0, 0, 5]);
    [
        bytes,
        sample::children(SIZE, 3),
        trunk,
        sample::mixed(SIZE, Tidy::No, 3),
        vec![0; SIZE],
    ]
    .concat()
}

/// A WAL of three frames, of which the second ends a commit.
fn a_wal(magic: u8) -> Vec<u8> {
    let mut bytes = vec![0x37, 0x7f, 0x06, magic, 0, 0x2d, 0xe2, 0x18, 0, 0, 2, 0];
    bytes.resize(wal::HEADER_LEN, 7);
    for (page, commit) in [(1, 0), (2, 2), (3, 0)] {
        bytes.extend([0, 0, 0, page, 0, 0, 0, commit]);
        bytes.resize(bytes.len() + 16, 0);
        bytes.extend(sample::rows(SIZE, false, Tidy::Yes, u64::from(page)));
    }
    repair(&mut bytes);
    bytes
}

fn seeds() -> Seeds {
    let row = b"\x06\x17\x17\x17\x01\x0ftabletnametname\x02s";
    vec![
        ("database", a_database()),
        ("wal", a_wal(0x82)),
        ("wal-big-endian", a_wal(0x83)),
        ("schema", row.to_vec()),
    ]
}
