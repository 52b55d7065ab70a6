//! A time series: sensors that report about once a second, with an index by sensor and time. One
//! REAL is a random walk with two decimals, one is a noisy double, one rarely changes.

use rand::RngExt as _;
use rusqlite::{Connection, params};

use super::Random;
use crate::result::Result;

const SENSORS: usize = 40;

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch(
        "CREATE TABLE reading(sensor INTEGER NOT NULL, at INTEGER NOT NULL, temperature REAL, noise REAL, level REAL)",
    )?;
    let mut insert = con.prepare("INSERT INTO reading VALUES (?, ?, ?, ?, ?)")?;
    // Hundredths of a degree, and the level.
    let mut state: Vec<(i64, f64)> = (0..SENSORS)
        .map(|_| (random.random_range(1_500..2_500), 1.0))
        .collect();
    let mut now: i64 = 1_760_000_000_000;
    for row in 0..rows {
        let sensor = (row % SENSORS as u64) as usize;
        now += random.random_range(20..31);
        let (hundredths, level) = &mut state[sensor];
        *hundredths += random.random_range(-12..=12);
        // The sum of four uniform numbers is approximately normal.
        let noise: f64 = (0..4).map(|_| random.random::<f64>() - 0.5).sum();
        if random.random_ratio(1, 400) {
            *level = f64::from(random.random_range(0..8)) * 0.125;
        }
        insert.execute(params![
            sensor as i64,
            now,
            *hundredths as f64 / 100.0,
            noise,
            *level
        ])?;
    }
    con.execute_batch("CREATE INDEX reading_by_sensor ON reading(sensor, at)")?;
    Ok(())
}
