//! Reads and writes values through the incremental API.

use rusqlite::Connection;

fn blob_rows(db: &Connection, nth: usize) -> rusqlite::Result<Vec<i64>> {
    let mut statement = db.prepare_cached(
        "SELECT id FROM keep_blobs WHERE length(b) > 0 ORDER BY id LIMIT 2 OFFSET ?1",
    )?;
    let rows = statement.query_map([i64::try_from(nth).unwrap_or(0)], |r| r.get(0))?;
    rows.collect()
}

pub(crate) fn blob_read(
    db: &Connection,
    nth: usize,
    piece: usize,
) -> rusqlite::Result<Vec<String>> {
    let rows = blob_rows(db, nth)?;
    let mut text = Vec::new();
    let Some(first) = rows.first() else {
        return Ok(text);
    };
    let mut blob = db.blob_open("main", "keep_blobs", "b", *first, true)?;
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            blob.reopen(*row)?;
        }
        let mut sum = 0u64;
        let mut at = 0;
        let mut buffer = vec![0; piece];
        while at < blob.len() {
            let read = blob.read_at(&mut buffer, at)?;
            for byte in &buffer[..read] {
                sum = sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
            }
            at += read.max(1);
        }
        text.push(format!("row {row}: {} bytes, sum {sum:x}", blob.len()));
    }
    Ok(text)
}

pub(crate) fn blob_write(
    db: &Connection,
    nth: usize,
    per_mille: usize,
    len: usize,
    seed: u64,
) -> rusqlite::Result<Vec<String>> {
    let rows = blob_rows(db, nth)?;
    let Some(row) = rows.first() else {
        return Ok(Vec::new());
    };
    let mut blob = db.blob_open("main", "keep_blobs", "b", *row, false)?;
    let at = blob.len() * per_mille / 1000;
    let len = len.min(blob.len() - at);
    let bytes: Vec<u8> = (0..len).map(|i| (seed >> (i % 57)) as u8).collect();
    blob.write_at(&bytes, at)?;
    blob.close()?;
    Ok(vec![format!("row {row}: {len} bytes at {at}")])
}
