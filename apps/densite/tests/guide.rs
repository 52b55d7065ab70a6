//! The code of docs/guides/rust.md, which compiles and runs as printed there.
#![allow(
    clippy::needless_borrow,
    reason = "in the guide `con` is the connection itself"
)]

use densite::rusqlite::Connection;

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

#[rustfmt::skip]
fn open() -> Result {
    // A new file becomes a Densite file, a plain one stays plain.
    let con = densite::open("app.db")?;
    con.pragma_update(None, "journal_mode", "wal")?;
    con.execute_batch("CREATE TABLE IF NOT EXISTS vote(user INTEGER PRIMARY KEY, article INTEGER)")?;

    let con = densite::OpenOptions::new().level(9).create(false).open("app.db")?;
    bulk(&con)?;
    ingest(&con)?;
    subscribers(&con)
}

#[rustfmt::skip]
fn bulk(con: &Connection) -> Result {
    use densite::{Columns, InsertOptions, OnConflict};

    let columns = Columns::new()
        .integers("user", vec![1, 2, 3])
        .integers("article", vec![Some(10), None, Some(30)]);   // None is NULL
    InsertOptions::new().on_conflict(OnConflict::Ignore).insert(&con, "vote", columns)?;

    for batch in densite::query(&con, "SELECT user, article FROM vote WHERE user > ?1", [1])? {
        let batch = batch?;
        let users: &[i64] = batch.columns()[0].integers().unwrap_or_default();
        assert_eq!(users, [2, 3]);
    }
    progress(&con)?;
    keys(&con)
}

#[rustfmt::skip]
fn progress(con: &Connection) -> Result {
    use densite::{Columns, InsertOptions};
    use std::ops::ControlFlow;

    let columns = Columns::new().integers("user", 4..200_000i64);
    InsertOptions::new().insert_with(&con, "vote", columns, |done, all| {
        println!("{done} of {all} rows");
        ControlFlow::Continue(())
    })?;
    Ok(())
}

#[rustfmt::skip]
fn keys(con: &Connection) -> Result {
    use densite::Columns;
    use densite::QueryOptions;

    let keys = Columns::new().integers("user", vec![3, 1]);
    let sql = "SELECT k.user, v.article FROM keys k JOIN vote v USING (user)";
    for batch in QueryOptions::new().keys(keys).query(&con, sql, [])? {
        let batch = batch?;
        let users: &[i64] = batch.columns()[0].integers().unwrap_or_default();
        assert_eq!(users, [1, 3]);
    }
    Ok(())
}

#[rustfmt::skip]
fn ingest(con: &Connection) -> Result {
    use densite::{IngestConflict, IngestOptions};
    use std::time::Duration;

    let log = IngestOptions::new().on_conflict(IngestConflict::Replace).ingest(&con, "vote")?;
    let seq = log.append([(1, 10), (2, 20)])?;                  // durable in the log
    log.wait_for(seq, Some(Duration::from_secs(30)))?;          // in the table itself
    for reject in log.rejects()? {
        println!("{} {:?}: {}", reject.seq, reject.row, reject.error);
    }
    Ok(())
}

#[rustfmt::skip]
fn subscribers(con: &Connection) -> Result {
    use std::time::Duration;
    let mut sub = densite::subscribe(&con, "indexer", densite::Start::Beginning)?;
    while let Some(batch) = sub.next(Some(Duration::from_secs(1)))? {
        for change in &batch.changes {
            println!("{} {} {:?} {:?}", change.seq, change.table, change.op, change.key);
        }
        sub.ack(batch.seq)?;                                    // durable: these do not come again
    }
    Ok(())
}

#[rustfmt::skip]
fn files() -> Result {
    densite::compress("old.db", "new.db")?;                     // or compress_in_place("old.db")
    densite::ConvertOptions::new().archive(true).compress("old.db", "small.db", &mut densite::Silent)?;
    densite::vacuum("new.db")?;
    assert!(densite::check("new.db")?.ok());
    println!("{}", densite::info("new.db")?.stored_bytes);
    Ok(())
}

/// The lines of the guide's Rust code.
fn code() -> Vec<&'static str> {
    let guide = include_str!("../../../docs/guides/rust.md");
    let blocks = guide.split("```rust\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_guide_has_this_code() {
    let here: Vec<&str> = include_str!("guide.rs").lines().map(str::trim).collect();
    let code = code();
    assert!(code.len() > 30);
    for line in code {
        assert!(
            here.contains(&line),
            "tests/guide.rs does not have this line of the guide: {line}"
        );
    }
}

#[test]
fn the_code_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    // This is the only test of this program that depends on the current directory.
    std::env::set_current_dir(&dir).expect("changes to it");
    Connection::open("old.db")
        .and_then(|con| con.execute_batch("CREATE TABLE t(a)"))
        .expect("a plain database");
    files().expect("files");
    open().expect("the rest");
}
