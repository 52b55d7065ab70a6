//! A vacuum of a Chroma directory: its log is pruned in the same step as its database is
//! rewritten.

use super::dir::{ChromaDir, recognise};
use super::plan::{PrunePlan, plan};
use super::prune::{Pruned, prune};
use super::schema::is_chroma;
use super::users::users;
use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::progress::Progress;
use crate::target;
use crate::vacuum::{VacuumOptions, VacuumPlan, VacuumReport};
use densite_sqlite::{Api, Connection};
use std::path::Path;

/// A vacuum of a Chroma directory that has not begun.
#[derive(Debug, Clone)]
pub struct ChromaVacuum {
    dir: ChromaDir,
    plan: PrunePlan,
    vacuum: VacuumPlan,
}

impl ChromaVacuum {
    /// The plan for a directory, or for the `chroma.sqlite3` in one, which means the same. `None`
    /// for anything else: a path that is no directory, or a database of that name without Chroma's
    /// tables.
    ///
    /// # Errors
    /// See [`recognise`] and [`plan`]; [`Error::NotChroma`] for a directory whose database is not
    /// Chroma's.
    pub fn find(api: Api, path: &Path, options: &VacuumOptions) -> Result<Option<ChromaVacuum>> {
        let Some(dir) = recognise(path)? else {
            return Ok(None);
        };
        let database = dir.database();
        // First what a vacuum needs to know: it waits for locks and tells of damage in full.
        let vacuum = VacuumPlan::new(api, &database, options)?;
        let conn = open(api, &database, options)?;
        if dir.named_database() && !is_chroma(&conn, &database)? {
            return Ok(None);
        }
        let plan = plan(&conn, &dir)?;
        drop(conn);
        Ok(Some(ChromaVacuum { dir, plan, vacuum }))
    }

    /// What of the log would go.
    pub fn plan(&self) -> &PrunePlan {
        &self.plan
    }

    /// What the vacuum alone would give back: what the pruned rows take comes on top.
    pub fn vacuum(&self) -> &VacuumPlan {
        &self.vacuum
    }

    /// Whether it can be done now: nobody uses the directory, and there is space.
    ///
    /// # Errors
    /// [`Error::Locked`] by a process that has any file of the directory open; as
    /// [`VacuumPlan::check`].
    pub fn check(&self) -> Result<()> {
        self.unused()?;
        self.vacuum.check()
    }

    /// An idle Chroma holds no lock, and would go on with the file that is replaced.
    fn unused(&self) -> Result<()> {
        match users(&self.dir) {
            by if by.is_empty() => Ok(()),
            by => Err(Error::Locked {
                path: self.dir.dir().to_path_buf(),
                by,
            }),
        }
    }

    /// Does it. Rows that go are looked for again under the lock.
    ///
    /// # Errors
    /// See [`VacuumPlan::run`] and [`prune`]; whatever it is, the directory holds what it held.
    pub fn run(
        &self,
        options: &VacuumOptions,
        progress: &mut dyn Progress,
    ) -> Result<(PrunePlan, VacuumReport)> {
        let mut pruned: Option<Pruned> = None;
        let mut hook = |conn: &Connection| {
            // Now nobody can begin to use the database.
            self.unused()?;
            pruned = Some(prune(conn, &self.dir)?);
            Ok(())
        };
        let report = self.vacuum.run(options, Some(&mut hook), progress)?;
        let plan = pruned.map_or_else(|| self.plan.clone(), |pruned| pruned.plan);
        Ok((plan, report))
    }
}

fn open(api: Api, database: &Path, options: &VacuumOptions) -> Result<Connection> {
    let target = target::resolve(database)?;
    let through = match form::form(api, &target)? {
        Form::Compressed => Through::Densite,
        Form::Plain | Form::Empty => Through::Host,
    };
    let wait_ms = i32::try_from(options.wait.as_millis()).unwrap_or(i32::MAX);
    through.connect(api, &target.path, Access::Read, wait_ms)
}
