//! JSON documents of an application: orders with nested customers and items, and events of its web
//! pages.

use std::fmt::Write as _;

use rand::RngExt as _;
use rusqlite::Connection;

use super::Random;
use super::words::{Words, capital, iso, pick};
use crate::result::Result;

const CUSTOMERS: u64 = 5_000;
const STATES: [&str; 5] = ["pending", "paid", "shipped", "shipped", "returned"];
const COUNTRIES: [&str; 8] = ["DE", "FR", "US", "GB", "NL", "IT", "SE", "PL"];
const EVENTS: [&str; 5] = ["page_view", "page_view", "click", "add_to_cart", "search"];
const SYSTEMS: [(&str, u32, u32); 5] = [
    ("ios", 390, 844),
    ("android", 412, 915),
    ("windows", 1920, 1080),
    ("macos", 1512, 982),
    ("linux", 2560, 1440),
];

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch("CREATE TABLE document(id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let words = Words::new(4_000, random);
    let mut insert = con.prepare("INSERT INTO document(body) VALUES (?)")?;
    let mut now = 1_750_000_000_000;
    for id in 0..rows {
        now += random.random_range(10..4_000);
        let body = if random.random_ratio(2, 5) {
            order(id, now, &words, random)
        } else {
            event(now, &words, random)
        };
        insert.execute([body])?;
    }
    Ok(())
}

fn order(id: u64, now: i64, words: &Words, random: &mut Random) -> String {
    let customer = random.random_range(0..CUSTOMERS);
    let (first, last) = (words.word(random), words.word(random));
    let mut total = 0;
    let mut items = String::new();
    for i in 0..random.random_range(1..=4) {
        let (quantity, cents) = (random.random_range(1..=5), random.random_range(99..20_000));
        total += quantity * cents;
        let _ = write!(
            items,
            r#"{}{{"sku":"{}-{:05}","name":"{} {}","qty":{quantity},"price":{}.{:02}}}"#,
            if i == 0 { "" } else { "," },
            pick(random, &["BK", "EL", "HM", "TY"]),
            random.random_range(0..30_000),
            words.word(random),
            words.word(random),
            cents / 100,
            cents % 100
        );
    }
    let note = if random.random_ratio(1, 5) {
        format!(r#""{}""#, words.sentence(8, random))
    } else {
        "null".to_owned()
    };
    format!(
        r#"{{"type":"order","id":"ord_{id:08}","created_at":"{}","status":"{}","customer":{{"id":{customer},"name":"{} {}","email":"{first}.{last}@example.com","address":{{"city":"{}","zip":"{:05}","country":"{}"}}}},"items":[{items}],"total":{}.{:02},"currency":"EUR","note":{note}}}"#,
        iso(now),
        pick(random, &STATES),
        capital(first),
        capital(last),
        capital(words.word(random)),
        random.random_range(1_000..99_999),
        pick(random, &COUNTRIES),
        total / 100,
        total % 100
    )
}

fn event(now: i64, words: &Words, random: &mut Random) -> String {
    let (system, width, height) = pick(random, &SYSTEMS);
    let referrer = if random.random_ratio(1, 3) {
        format!(r#""https://www.example.org/{}""#, words.word(random))
    } else {
        "null".to_owned()
    };
    format!(
        r#"{{"type":"event","ts":{now},"session":"{:016x}","user":{},"name":"{}","page":{{"path":"/{}/{}/{}","referrer":{referrer},"load_ms":{}}},"device":{{"os":"{system}","version":"{}.{}","screen":[{width},{height}]}},"consent":{}}}"#,
        random.random::<u64>(),
        random.random_range(0..CUSTOMERS),
        pick(random, &EVENTS),
        words.word(random),
        words.word(random),
        random.random_range(1..50_000),
        random.random_range(40..3_000),
        random.random_range(10..18),
        random.random_range(0..7),
        random.random_bool(0.8)
    )
}
