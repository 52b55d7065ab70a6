//! Calls on directories.

use super::{InodeNo, PLENTY, World, split};
use densite_disk::{Error, ErrorKind, Op, Result};

impl World {
    pub(crate) fn find(&mut self, path: &str) -> Result<Option<InodeNo>> {
        let pass = self.enter(Op::List, path, false)?;
        let (dir, name) = split(path);
        pass.done(self.lookup(&dir, name))
    }

    pub(crate) fn remove(&mut self, path: &str) -> Result<()> {
        let pass = self.enter(Op::Remove, path, true)?;
        self.note(|| format!("remove {path}"));
        let (dir, name) = split(path);
        let no = self
            .lookup(&dir, name)
            .ok_or(Error::new(ErrorKind::NotFound, Op::Remove))?;
        let seq = self.next_seq();
        if let Some(entries) = self.dirs.get_mut(&dir) {
            entries.remove(seq, name);
        }
        self.released(no);
        pass.done(())
    }

    pub(crate) fn rename(&mut self, dir: &str, from: &str, to: &str) -> Result<()> {
        let pass = self.enter(Op::Rename, &format!("{dir}/{from}"), true)?;
        if self.lookup(dir, from).is_none() {
            return Err(Error::new(ErrorKind::NotFound, Op::Rename));
        }
        let replaced = self.lookup(dir, to);
        self.note(|| format!("rename {dir}/{from} to {to}"));
        let seq = self.next_seq();
        if let Some(entries) = self.dirs.get_mut(dir) {
            entries.rename(seq, from, to);
        }
        if let Some(no) = replaced {
            self.released(no);
        }
        pass.done(())
    }

    pub(crate) fn list(&mut self, dir: &str) -> Result<Vec<String>> {
        let pass = self.enter(Op::List, dir, false)?;
        let names = self
            .dirs
            .get(dir)
            .map(|d| d.names.keys().cloned().collect());
        pass.done(names.unwrap_or_default())
    }

    pub(crate) fn sync_dir(&mut self, dir: &str) -> Result<()> {
        // If it fails, the entries stay pending, because journals of metadata are retried.
        let pass = self.enter(Op::Sync, dir, true)?;
        self.note(|| format!("sync directory {dir}/"));
        if pass.dying {
            return pass.done(());
        }
        self.table.directory(dir).syncs += 1;
        if let Some(entries) = self.dirs.get_mut(dir) {
            let last = entries.last_pending();
            entries.sync();
            self.sync_metadata_before(last);
        }
        self.forget_all_unreachable();
        Ok(())
    }

    pub(crate) fn free_space(&mut self, dir: &str) -> Result<u64> {
        let pass = self.enter(Op::List, dir, false)?;
        let capacity = self.policy.capacity.unwrap_or(PLENTY);
        pass.done(capacity.saturating_sub(self.used))
    }
}
