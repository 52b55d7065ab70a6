//! Whether functions were registered with a connection.
//!
//! SQLite does not replace a function while a statement of the connection runs, and
//! `SELECT load_extension(…)` is such a statement. So functions are registered once for each
//! connection.

use crate::connection::Connection;
use densite_disk::sync::Mutex;
use std::collections::BTreeSet;

/// The addresses of connections, and what was registered with them.
static REGISTERED: Mutex<BTreeSet<(usize, &str)>> = Mutex::new(BTreeSet::new());

/// The note that a group of functions was registered with a connection. It belongs into the last
/// function of the group. SQLite drops the function when it closes the connection, before another
/// one can have the same address.
#[derive(Debug)]
pub struct Registration(usize, &'static str);

impl Registration {
    /// Notes it; `None` if it is noted already.
    pub fn new(connection: &Connection, group: &'static str) -> Option<Registration> {
        let address = connection.as_ptr().addr();
        let is_new = REGISTERED.lock().insert((address, group));
        is_new.then_some(Registration(address, group))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        REGISTERED.lock().remove(&(self.0, self.1));
    }
}
