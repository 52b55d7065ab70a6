//! Random UUIDs as text for primary keys, with a secondary index. Rows arrive in random order, so
//! pages are split. The database is never vacuumed.

use rand::RngExt as _;
use rusqlite::{Connection, params};

use super::Random;
use super::words::{Words, capital};
use crate::result::Result;

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch(
        "CREATE TABLE account(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, name TEXT);
         CREATE INDEX account_by_owner ON account(owner)",
    )?;
    let words = Words::new(3_000, random);
    let owners: Vec<String> = (0..rows / 20 + 1).map(|_| uuid(random)).collect();
    let mut insert = con.prepare("INSERT INTO account VALUES (?, ?, ?, ?)")?;
    let mut now: i64 = 1_740_000_000;
    for _ in 0..rows {
        now += random.random_range(0..90);
        let owner = &owners[random.random_range(0..owners.len())];
        let name = format!(
            "{} {}",
            capital(words.word(random)),
            capital(words.word(random))
        );
        insert.execute(params![uuid(random), owner, now, name])?;
    }
    Ok(())
}

/// A UUID of version 4.
fn uuid(random: &mut Random) -> String {
    let bits = random.random::<u128>();
    // Version and variant take six of the bits.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn uuids_have_the_form_of_version_4() {
        let uuid = uuid(&mut Random::seed_from_u64(1));
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]));
    }
}
