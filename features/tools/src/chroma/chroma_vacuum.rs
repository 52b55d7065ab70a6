//! Vacuums a Chroma directory: prunes its log in the same step that rewrites its database.

use super::dir::{ChromaDir, recognise};
use super::leftovers;
use super::prune::{Pruned, prune};
use super::prune_plan::{PrunePlan, plan};
use super::schema::is_chroma;
use super::users::users;
use crate::db::{Access, from_sqlite};
use crate::error::{Error, Result};
use crate::form;
use crate::progress::Progress;
use crate::target;
use crate::vacuum::{VacuumOptions, VacuumPlan, VacuumReport};
use densite_disk::sync::Mutex;
use densite_sqlite::{Api, Code, Connection};
use std::path::Path;

/// The table of FTS5 in which Chroma finds documents.
const TEXT_INDEX: &str = "embedding_fulltext_search";

/// A planned vacuum of a Chroma directory.
#[derive(Debug, Clone)]
pub struct ChromaVacuum {
    dir: ChromaDir,
    plan: PrunePlan,
    vacuum: VacuumPlan,
}

impl ChromaVacuum {
    /// The plan for a directory, or for the `chroma.sqlite3` in it, which means the same. `None`
    /// for anything else: a path that is not a directory, or a database of that name without
    /// Chroma's tables.
    ///
    /// # Errors
    /// See [`recognise`] and [`plan`]; [`Error::NotChroma`] for a directory whose database does not
    /// have Chroma's tables.
    pub fn find(api: Api, path: &Path, options: &VacuumOptions) -> Result<Option<ChromaVacuum>> {
        let Some(dir) = recognise(path)? else {
            return Ok(None);
        };
        let database = dir.database();
        // The plan of the vacuum comes first: it waits for locks and reports damage in full.
        let vacuum = VacuumPlan::new(api, &database, options)?;
        let conn = open(api, &database, options)?;
        if dir.named_database() && !is_chroma(&conn, &database)? {
            return Ok(None);
        }
        let plan = plan(&conn, &dir)?;
        drop(conn);
        Ok(Some(ChromaVacuum { dir, plan, vacuum }))
    }

    /// The rows of the log that would be deleted.
    pub fn plan(&self) -> &PrunePlan {
        &self.plan
    }

    /// The space that the vacuum alone would free. The space of the pruned rows adds to it.
    pub fn vacuum(&self) -> &VacuumPlan {
        &self.vacuum
    }

    /// Checks that the vacuum can run now: no process uses the directory, and there is enough
    /// space.
    ///
    /// # Errors
    /// [`Error::Locked`] with the processes that have any file of the directory open; the errors of
    /// [`VacuumPlan::check`].
    pub fn check(&self) -> Result<()> {
        self.unused()?;
        self.vacuum.check()
    }

    /// An idle Chroma holds no lock and would continue with the replaced file.
    fn unused(&self) -> Result<()> {
        match users(&self.dir) {
            by if by.is_empty() => Ok(()),
            by => Err(Error::Locked {
                path: self.dir.dir().to_path_buf(),
                by,
            }),
        }
    }

    /// Runs the vacuum. The rows to delete are determined again under the lock, and the folders of
    /// deleted collections. These are removed when the new file has its name, before the lock is
    /// released. The result has those that are gone.
    ///
    /// # Errors
    /// See [`VacuumPlan::run`] and [`prune`]. After any error the content of the directory is
    /// unchanged.
    pub fn run(
        &self,
        options: &VacuumOptions,
        progress: &mut dyn Progress,
    ) -> Result<(PrunePlan, VacuumReport)> {
        let mut pruned: Option<Pruned> = None;
        let found = Mutex::new(Vec::new());
        let mut hook = |conn: &Connection| {
            // From here on no process can start to use the database.
            self.unused()?;
            let done = prune(conn, &self.dir)?;
            found.lock().clone_from(&done.plan.leftovers);
            pruned = Some(done);
            merge_text_index(conn, &self.dir.database())?;
            Ok(())
        };
        let mut gone = Vec::new();
        let mut then = |progress: &mut dyn Progress| {
            gone = leftovers::remove(std::mem::take(&mut *found.lock()), progress);
        };
        let report = (self.vacuum).run_and(options, Some(&mut hook), &mut then, progress)?;
        let plan = pruned.map_or_else(|| self.plan.clone(), |pruned| pruned.plan);
        let plan = PrunePlan {
            leftovers: gone,
            ..plan
        };
        Ok((plan, report))
    }
}

/// Merges the parts of the index of documents into one, without what was deleted: each write adds a
/// part, and Chroma never asks for that. A SQLite without FTS5 leaves them.
fn merge_text_index(conn: &Connection, database: &Path) -> Result<()> {
    let index = format!(
        "SELECT count(*) FROM main.sqlite_schema WHERE name = '{TEXT_INDEX}' AND sql LIKE '%using fts5%'"
    );
    let failed = |e| from_sqlite(database, e);
    if conn.query_i64(&index).map_err(failed)? != Some(1) {
        return Ok(());
    }
    let merge = format!("INSERT INTO main.{TEXT_INDEX}({TEXT_INDEX}) VALUES ('optimize')");
    match conn.exec(&merge) {
        Err(e) if e.code.primary() == Code::ERROR => Ok(()),
        done => done.map_err(failed),
    }
}

fn open(api: Api, database: &Path, options: &VacuumOptions) -> Result<Connection> {
    let target = target::resolve(database)?;
    let through = form::form(api, &target)?.through();
    through.connect(api, &target, Access::Read, options.wait)
}
