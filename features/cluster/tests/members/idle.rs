//! What an idle member costs the server.

use super::{Cluster, ingest, settle};
use std::time::Duration;

/// How long members rest before messages are counted: the pauses between questions double from one
/// second on.
const BEFORE: Duration = Duration::from_secs(18);
/// How long they are counted. The next question of each comes after 31 seconds.
const COUNTED: Duration = Duration::from_secs(10);

#[test]
fn idle_members_send_nothing_between_their_questions() {
    if !densite_testing::Effort::wanted().is_full() {
        return;
    }
    let Some(cluster) = Cluster::on_nats("") else {
        return;
    };
    let a = cluster.founder("a", "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT)");
    ingest(&a, "vote", "");
    let b = cluster.copy(&a, "b");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    settle(&[&a, &b]);
    std::thread::sleep(BEFORE);
    let before = cluster.place().messages_in();
    std::thread::sleep(COUNTED);
    let sent = cluster.place().messages_in() - before;
    // One can be late on a busy machine.
    assert!(
        sent <= 2,
        "{sent} messages of two idle members in {COUNTED:?}"
    );
}
