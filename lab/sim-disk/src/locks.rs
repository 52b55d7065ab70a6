//! Locks of files, held by handles.

use std::collections::BTreeMap;

use super::entries::InodeNo;
use densite_disk::LockKind;

/// One handle, which can hold locks.
pub(super) type HolderNo = u64;

/// The locks of all files and their holders.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: BTreeMap<InodeNo, Vec<(HolderNo, LockKind)>>,
    holder_next: HolderNo,
}

impl Locks {
    pub(super) fn new_holder(&mut self) -> HolderNo {
        self.holder_next += 1;
        self.holder_next
    }

    /// Takes the lock if no other holder prevents it. A lock that is held already changes its kind.
    pub(super) fn take(&mut self, no: InodeNo, holder: HolderNo, kind: LockKind) -> bool {
        let held = self.held.entry(no).or_default();
        let both_shared = |k: LockKind| k == LockKind::Shared && kind == LockKind::Shared;
        if held.iter().any(|(h, k)| *h != holder && !both_shared(*k)) {
            return false;
        }
        held.retain(|(h, _)| *h != holder);
        held.push((holder, kind));
        true
    }

    pub(super) fn release(&mut self, no: InodeNo, holder: HolderNo) {
        if let Some(held) = self.held.get_mut(&no) {
            held.retain(|(h, _)| *h != holder);
            if held.is_empty() {
                self.held.remove(&no);
            }
        }
    }
}
