//! A log that cannot be read for a while: nothing is skipped when it can again.

mod common;

use common::{Db, Held, all, wait};
use std::os::unix::fs::FileExt;

#[test]
fn a_read_that_failed_leaves_no_hole() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    for i in 1..=3 {
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({i}, 'row number {i}')"))
            .expect("inserts");
    }
    // The last record gets a wrong byte, in the file.
    let segments = std::fs::read_dir(db.log_dir()).expect("a folder");
    let (path, at) = segments
        .filter_map(|entry| {
            let path = entry.expect("an entry").path();
            let bytes = std::fs::read(&path).expect("a file");
            let at = bytes.windows(12).position(|w| w == b"row number 3")?;
            Some((path, at as u64))
        })
        .next()
        .expect("the segment");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("opens");
    file.write_all_at(b"X", at).expect("writes");
    let said = con
        .query_row("SELECT count(*) FROM t_in", [], |_| Ok(()))
        .expect_err("damaged")
        .to_string();
    assert!(said.contains("densite log check"), "{said}");
    file.write_all_at(b"r", at).expect("writes");
    assert_eq!(all(&con, "SELECT id FROM t_in"), ["1", "2", "3"]);
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "3"]);
}
