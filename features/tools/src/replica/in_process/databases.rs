//! The main databases that connections of this process have open, and what ships them.

use super::shipping::Shipping;
use densite_disk::sync::Mutex;
use densite_sqlite::{Connection, PerProcess, is_opened_by_densite};
use std::collections::HashMap;
use std::sync::Arc;

/// By path, as SQLite names the file. The mutex is never held while SQLite or a
/// bucket is called.
static DATABASES: PerProcess<Mutex<HashMap<String, Database>>> = PerProcess::new();

#[derive(Default)]
struct Database {
    /// Connections of the application that have it open.
    connections: usize,
    /// What ships it, or shipped it last.
    shipping: Option<Arc<Shipping>>,
}

/// A connection of the application. The last one of a database ends its shipping when it closes.
pub(super) struct Member {
    path: Option<String>,
    process: u32,
}

impl Member {
    /// Counts a connection that is being opened. Connections of Densite itself do not count.
    pub(super) fn of(connection: &Connection) -> Member {
        let path = connection.filename(c"main");
        let path = path.filter(|path| !path.is_empty() && !is_opened_by_densite());
        if let Some(path) = &path {
            let mut databases = DATABASES.get().lock();
            databases.entry(path.clone()).or_default().connections += 1;
        }
        Member {
            path,
            process: std::process::id(),
        }
    }

    /// The connection's main database; `None` without a file.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Whether something ships it.
    pub(super) fn is_shipped(&self) -> bool {
        self.shipping()
            .is_some_and(|shipping| !shipping.is_ending())
    }

    /// What ships the connection's main database, or shipped it last.
    pub(super) fn shipping(&self) -> Option<Arc<Shipping>> {
        let databases = DATABASES.get().lock();
        databases.get(self.path.as_ref()?)?.shipping.clone()
    }

    /// Calls `start` if nothing ships the connection's main database, with what shipped it last.
    /// Returns what ships it, and whether it was just started. `None` without a database file.
    pub(super) fn shipping_or<E>(
        &self,
        start: impl FnOnce(&str, Option<Arc<Shipping>>) -> Result<Arc<Shipping>, E>,
    ) -> Result<Option<(Arc<Shipping>, bool)>, E> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let mut databases = DATABASES.get().lock();
        let database = databases.entry(path.clone()).or_default();
        match &database.shipping {
            Some(shipping) if !shipping.is_ending() => Ok(Some((Arc::clone(shipping), false))),
            before => {
                let shipping = start(path, before.clone())?;
                database.shipping = Some(Arc::clone(&shipping));
                Ok(Some((shipping, true)))
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Some(path) = &self.path else {
            return;
        };
        if self.process != std::process::id() {
            return;
        }
        let mut databases = DATABASES.get().lock();
        let Some(database) = databases.get_mut(path) else {
            return;
        };
        database.connections = database.connections.saturating_sub(1);
        if database.connections > 0 {
            return;
        }
        let shipping = database.shipping.clone();
        drop(databases);
        if let Some(shipping) = shipping {
            shipping.end();
        }
        // A thread that has not ended stays known, so that the next one waits for it.
        let mut databases = DATABASES.get().lock();
        databases.retain(|_, d| {
            d.connections > 0 || d.shipping.as_ref().is_some_and(|s| !s.has_ended())
        });
    }
}
