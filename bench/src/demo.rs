//! A demo on generated data: compress, query, update from a second process, check.

use std::fs;
use std::path::Path;
use std::time::Instant;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use rusqlite::Connection;

use crate::connect::{self, Vfs};
use crate::result::{About as _, Failure, Result};
use crate::work::{self, Job, Sample, What};
use crate::{stored, tpch};

const SF: f64 = 0.1;
const LOOKUPS: u64 = 10_000;
const UPDATES: u64 = 1_000;

/// A row of the table: label, plain SQLite, Densite, and the ratio.
type Line = [String; 4];

/// Runs the demo with its data in `dir`.
///
/// # Errors
/// If any step fails, or plain SQLite and Densite give different answers.
pub(crate) fn run(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).about("create", dir)?;
    connect::load_extension()?;
    let plain = dir.join("tpch.db");
    let densite = dir.join("tpch.densite");
    let copy = dir.join("updated.db");

    if plain.exists() {
        println!(
            "1. TPC-H, scale factor {SF}, lies in {} from an earlier run",
            plain.display()
        );
    } else {
        println!(
            "1. generating TPC-H, scale factor {SF}, into {}",
            plain.display()
        );
        tpch::generate(SF, &plain)?;
    }

    println!(
        "2. densite compress {} {}",
        plain.display(),
        densite.display()
    );
    let start = Instant::now();
    stored::compress(stored::Setting::Default, &plain, &densite)?;
    let compressed_in = start.elapsed().as_secs_f64();

    println!("3. the same queries on both, each in a process of its own");
    let mut lines = vec![size_line(&plain, &densite)?];
    for (label, what, count) in [
        ("Q1 (scan of lineitem)", What::Q1, 1),
        ("Q8 (eight-way join)", What::Q8, 1),
        ("10,000 random lookups", What::Lookups, LOOKUPS),
    ] {
        let job = |file, vfs| Job {
            count,
            orders: tpch::orders(SF),
            ..Job::new(what, file, vfs)
        };
        let base = job(&plain, Vfs::Plain).in_new_process()?;
        let ours = job(&densite, Vfs::Densite).in_new_process()?;
        same_answer(label, &base, &ours)?;
        lines.push(time_line(label, &base, &ours));
    }

    println!("4. 1,000 updates in WAL mode from a second process, while this one reads");
    fs::copy(&plain, &copy).about("copy to", &copy)?;
    let updates = |file, vfs| Job {
        count: UPDATES,
        orders: tpch::orders(SF),
        ..Job::new(What::UpdatesWal, file, vfs)
    };
    let base = updates(&copy, Vfs::Plain).in_new_process()?;
    let ours = update_beside_a_reader(&densite, &updates(&densite, Vfs::Densite))?;
    let label = "1,000 updates, WAL";
    same_answer(label, &base, &ours)?;
    lines.push(time_line(label, &base, &ours));
    let (a, b) = (
        orders_digest(&copy, Vfs::Plain)?,
        orders_digest(&densite, Vfs::Densite)?,
    );
    if a != b {
        return Err(Failure(
            "after the updates, plain SQLite and Densite hold different orders".to_owned(),
        ));
    }
    fs::remove_file(&copy).about("remove", &copy)?;

    println!("5. densite check {}", densite.display());
    stored::densite(&[Path::new("check"), Path::new("--quiet"), &densite])?;

    println!(
        "\nSame answers from both; compressed in {compressed_in:.1} s; every frame and SQLite's integrity_check are ok.\n"
    );
    println!("{}", table(lines));
    println!(
        "\nTo look at it yourself: target/release/densite sql {} \"SELECT count(*) FROM lineitem\"",
        densite.display()
    );
    Ok(())
}

/// Runs the updates in another process while this one holds a snapshot. The snapshot must not
/// change, and later reads must see the updates.
fn update_beside_a_reader(densite: &Path, updates: &Job) -> Result<Sample> {
    let reader = Vfs::Densite.open(densite)?;
    let _: String = reader.query_row("PRAGMA journal_mode=wal", [], |r| r.get(0))?;
    reader.execute_batch("BEGIN")?;
    let before = total(&reader)?;
    let sample = updates.in_new_process()?;
    let during = total(&reader)?;
    reader.execute_batch("COMMIT")?;
    let after = total(&reader)?;
    if before != during {
        return Err(Failure(format!(
            "a reader's snapshot changed under it: {before} became {during}"
        )));
    }
    if after - before != UPDATES as i64 {
        return Err(Failure(format!(
            "{UPDATES} updates by one came to {} in all",
            after - before
        )));
    }
    Ok(sample)
}

/// The sum of all prices, in whole units. Each update raises it by 1.
fn total(con: &Connection) -> Result<i64> {
    let hundredths: i64 = con.query_row(
        "SELECT sum(CAST(round(o_totalprice * 100) AS INTEGER)) FROM orders",
        [],
        |r| r.get(0),
    )?;
    Ok(hundredths / 100)
}

/// A hash of all orders.
fn orders_digest(path: &Path, vfs: Vfs) -> Result<String> {
    work::digest(&vfs.open(path)?, "SELECT * FROM orders ORDER BY o_orderkey")
}

fn same_answer(label: &str, base: &Sample, ours: &Sample) -> Result<()> {
    if base.digest == ours.digest && base.rows == ours.rows {
        return Ok(());
    }
    Err(Failure(format!(
        "{label}: plain SQLite and Densite gave different answers: {base:?} and {ours:?}"
    )))
}

fn time_line(label: &str, base: &Sample, ours: &Sample) -> Line {
    let ms = |s: &Sample| format!("{:.0} ms", s.wall_s * 1e3);
    [
        label.to_owned(),
        ms(base),
        ms(ours),
        format!("{:.2}", ours.wall_s / base.wall_s),
    ]
}

fn size_line(plain: &Path, densite: &Path) -> Result<Line> {
    let (base, ours) = (
        stored::allocated(plain)? as f64,
        stored::allocated(densite)? as f64,
    );
    let mb = |v: f64| format!("{:.1} MB", v / 1e6);
    Ok([
        "size on disk".to_owned(),
        mb(base),
        mb(ours),
        format!("{:.2}", ours / base),
    ])
}

fn table(lines: Vec<Line>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "TPC-H, scale factor 0.1",
        "plain SQLite",
        "Densite",
        "Densite / plain",
    ]);
    for line in lines {
        table.add_row(line);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
