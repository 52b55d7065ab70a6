//! Calls on files, and the files themselves: how they are created, charged and dropped.

use super::super::counters::StatNo;
use super::super::entries::InodeNo;
use super::super::inode::Inode;
use super::super::policy::{EntryPolicy, FailedSync, MetadataOrder};
use super::super::survival::Survival;
use super::{FileRef, World, dead, split, struck};
use densite_disk::{Error, ErrorKind, Op, OpenMode, Result, SyncKind};

impl World {
    fn inode(&mut self, no: InodeNo, op: Op) -> Result<&mut Inode> {
        self.inodes.get_mut(&no).ok_or(dead(op))
    }

    pub(crate) fn open(&mut self, path: &str, mode: OpenMode) -> Result<(InodeNo, StatNo)> {
        let (dir, name) = split(path);
        let path = format!("{dir}/{name}");
        let found = self.lookup(&dir, name);
        let creates = found.is_none() && matches!(mode, OpenMode::Create | OpenMode::CreateNew);
        let pass = self.enter(Op::Open, &path, creates)?;
        let no = match found {
            Some(_) if mode == OpenMode::CreateNew => {
                return Err(Error::new(ErrorKind::Exists, Op::Open));
            }
            Some(no) => no,
            None if !creates => return Err(Error::new(ErrorKind::NotFound, Op::Open)),
            None => {
                self.note(|| format!("create {path}"));
                let no = self.add(Inode::default());
                let seq = self.next_seq();
                self.dirs.entry(dir).or_default().create(seq, name, no);
                no
            }
        };
        let stat = self.table.number(&path);
        let opened = pass.done((no, stat))?;
        self.inode(no, Op::Open)?.handles += 1;
        Ok(opened)
    }

    pub(super) fn add(&mut self, inode: Inode) -> InodeNo {
        let no = self.inode_next;
        self.inode_next += 1;
        self.used += inode.data().len() as u64;
        self.inodes.insert(no, inode);
        no
    }

    /// Handles the end of a name or a handle of the file.
    pub(super) fn released(&mut self, no: InodeNo) {
        let Some(inode) = self.inodes.get_mut(&no) else {
            return;
        };
        if inode.handles > 0 || self.dirs.values().any(|d| d.leads_to(no)) {
            return;
        }
        // Its room is free at once, although a cut can bring the file back.
        self.used = self.used.saturating_sub(inode.charged());
        inode.charge_nothing();
        self.forget_unreachable(no);
    }

    /// Handles the end of a handle.
    pub(crate) fn close(&mut self, no: InodeNo) {
        if let Some(inode) = self.inodes.get_mut(&no) {
            inode.handles = inode.handles.saturating_sub(1);
        }
        self.released(no);
    }

    /// Frees a file that no process can see any more, not even after a cut.
    fn forget_unreachable(&mut self, no: InodeNo) {
        let Some(inode) = self.inodes.get(&no) else {
            return;
        };
        if inode.handles == 0 && !self.dirs.values().any(|d| d.may_lead_to(no)) {
            self.used = self.used.saturating_sub(inode.charged());
            self.inodes.remove(&no);
        }
    }

    pub(super) fn forget_all_unreachable(&mut self) {
        let numbers: Vec<InodeNo> = self.inodes.keys().copied().collect();
        for no in numbers {
            self.forget_unreachable(no);
        }
    }

    pub(crate) fn read(&mut self, file: FileRef, buf: &mut [u8], offset: u64) -> Result<usize> {
        let path = self.table.path(file.stat);
        let pass = self.enter(Op::Read, &path, false)?;
        self.table.at(file.stat).reads += 1;
        let data = self.inode(file.no, Op::Read)?.data();
        let tail = usize::try_from(offset).ok().and_then(|o| data.get(o..));
        let tail = tail.unwrap_or_default();
        let n = tail.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), tail.get(..n)) {
            to.copy_from_slice(from);
        }
        pass.done(n)
    }

    pub(crate) fn write(&mut self, file: FileRef, buf: &[u8], offset: u64) -> Result<()> {
        let path = self.table.path(file.stat);
        match self.try_enter(Op::Write, &path, true) {
            Ok(pass) => {
                self.put(file, buf, offset)?;
                pass.done(())
            }
            Err(None) => Err(dead(Op::Write)),
            Err(Some(strike)) => {
                let prefix = buf.get(..strike.prefix.min(buf.len())).unwrap_or_default();
                self.put(file, prefix, offset)?;
                Err(struck(Op::Write, strike))
            }
        }
    }

    fn put(&mut self, file: FileRef, bytes: &[u8], offset: u64) -> Result<()> {
        let path = self.table.path(file.stat);
        self.note(|| format!("write {path} {offset}+{}", bytes.len()));
        if bytes.is_empty() {
            return Ok(());
        }
        let old_len = self.inode(file.no, Op::Write)?.data().len() as u64;
        let end = offset.saturating_add(bytes.len() as u64);
        self.reserve(Op::Write, old_len, end.max(old_len))?;
        let seq = self.next_seq();
        let counters = self.table.at(file.stat);
        counters.writes += 1;
        counters.bytes_written += bytes.len() as u64;
        self.inode(file.no, Op::Write)?
            .write(seq, offset as usize, bytes);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, file: FileRef, len: u64) -> Result<()> {
        let path = self.table.path(file.stat);
        let pass = self.enter(Op::Truncate, &path, true)?;
        self.note(|| format!("set length {path} {len}"));
        let old_len = self.inode(file.no, Op::Truncate)?.data().len() as u64;
        self.reserve(Op::Truncate, old_len, len)?;
        let seq = self.next_seq();
        self.inode(file.no, Op::Truncate)?
            .set_len(seq, len as usize);
        pass.done(())
    }

    /// Both kinds of sync do the same here: contents and length become durable.
    pub(crate) fn sync(&mut self, file: FileRef, _kind: SyncKind) -> Result<()> {
        let path = self.table.path(file.stat);
        let pass = match self.try_enter(Op::Sync, &path, true) {
            Ok(pass) => pass,
            Err(None) => return Err(dead(Op::Sync)),
            Err(Some(strike)) => {
                if self.policy.failed_sync == FailedSync::Dropped {
                    let survival = Survival::each_file(&self.policy);
                    let mut rng = self.rng.clone();
                    self.inode(file.no, Op::Sync)?
                        .fail_sync(&survival, &mut rng);
                    self.rng = rng;
                }
                return Err(struck(Op::Sync, strike));
            }
        };
        self.note(|| format!("sync {path}"));
        if pass.dying {
            // The sync was in progress: its writes survive in any mixture.
            return pass.done(());
        }
        self.table.at(file.stat).syncs += 1;
        let inode = self.inode(file.no, Op::Sync)?;
        let last = inode.last_set_len();
        inode.sync();
        self.sync_metadata_before(last);
        if self.policy.entries == EntryPolicy::FileSync {
            let dir = split(&path).0;
            if let Some(entries) = self.dirs.get_mut(&dir) {
                entries.sync();
            }
        }
        Ok(())
    }

    /// Handles a change of metadata at this place that became durable. With a journal, those before
    /// it do too.
    pub(super) fn sync_metadata_before(&mut self, seq: Option<u64>) {
        let (Some(seq), MetadataOrder::Journalled) = (seq, self.policy.metadata) else {
            return;
        };
        for inode in self.inodes.values_mut() {
            inode.sync_lengths_before(seq);
        }
        for entries in self.dirs.values_mut() {
            entries.sync_before(seq);
        }
    }

    pub(crate) fn len(&mut self, file: FileRef) -> Result<u64> {
        let path = self.table.path(file.stat);
        let pass = self.enter(Op::Len, &path, false)?;
        let len = self.inode(file.no, Op::Len)?.data().len() as u64;
        pass.done(len)
    }
}
