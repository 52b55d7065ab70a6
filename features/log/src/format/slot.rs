//! A writer's slot: one of the files `writer-0`, `writer-1`, … An open log keeps its slot locked.
//!
//! ```text
//! offset  size  field
//!      0     8  nonce      random for each time the log was opened
//!      8     8  prepared   first row of its first transaction that is neither committed nor rolled back; 0 none
//!     16     8  cancels    transactions it has rolled back after they were appended
//!     24     8  checksum   xxh3 of the 24 bytes above
//! ```
//!
//! A slot is valid only while it is locked: the transactions of a process that is gone count as
//! committed.
//!
//! Invariant: `prepared` is written before the end word reaches that row. So no reader passes a
//! prepared row.
//!
//! Invariant: a rollback is in the state file before `cancels` counts it and before `prepared`
//! moves on. So a reader that finds both unchanged knows all rollbacks up to there. A process that
//! is killed in between leaves the old `prepared`. For a process that is gone and left a prepared
//! transaction, the state file tells the rollbacks, not `cancels`.

use crate::Seq;
use densite_disk::Fields;
use densite_disk::hash::xxh3_64;

/// Length in bytes.
pub(crate) const SLOT_LEN: usize = 32;

/// What one writer tells other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WriterSlot {
    pub(crate) nonce: u64,
    pub(crate) prepared: Seq,
    pub(crate) cancels: u64,
}

impl WriterSlot {
    pub(crate) fn encode(&self) -> [u8; SLOT_LEN] {
        let mut out = Vec::with_capacity(SLOT_LEN);
        for field in [self.nonce, self.prepared, self.cancels] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        let mut array = [0; SLOT_LEN];
        array.copy_from_slice(&out);
        array
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<WriterSlot> {
        let mut take = Fields::new(bytes);
        let slot = WriterSlot {
            nonce: take.u64()?,
            prepared: take.u64()?,
            cancels: take.u64()?,
        };
        let sum = take.u64()?;
        (xxh3_64(bytes.get(..SLOT_LEN - 8)?) == sum).then_some(slot)
    }
}
