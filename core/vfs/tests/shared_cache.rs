//! Connections with a shared cache share one open file.

use crate::common::{Place, run};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SHARED: &str = "&cache=shared";

/// SQLite calls the file's xFileControl for each connection that joins, while another thread may be
/// using the file. Neither disturbs the other.
#[test]
fn a_joining_connection_does_not_disturb_others() {
    let place = Place::new();
    let first = place.try_open("a.db", SHARED).expect("opens");
    run(&first, "CREATE TABLE t(a); INSERT INTO t VALUES (1)");
    let (ends, until) = (
        AtomicBool::new(false),
        Instant::now() + Duration::from_secs(2),
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) && Instant::now() < until {
                drop(place.try_open("a.db", SHARED).expect("opens"));
            }
        });
        while Instant::now() < until {
            let rows: rusqlite::Result<i64> =
                first.query_row("SELECT count(*) FROM t", [], |r| r.get(0));
            ends.store(rows.is_err(), Ordering::Relaxed);
            assert_eq!(rows.expect("a count"), 1);
        }
    });
}
