//! A commit begins: on top of the newest one, with the accounting of space that belongs to it; or, in an empty file, with a store without pages.

use crate::append::Appender;
use crate::codec::family::Family;
use crate::error::{Damage, Error, Result};
use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::format::{DATA_OFF, FORMAT_VERSION, HEADER_OFF, MAX_COMMIT, SLOT_COPY, SLOT_OFF};
use crate::handle::Handle;
use crate::pending::Pending;
use crate::rewrite;
use crate::state::first_hash;
use crate::write::{DEFAULT_PAGE, RESERVED_AT};
use densite_disk::SyncKind;
use std::collections::{HashMap, VecDeque};

/// The open end may begin behind the end of the file, by less than this: free units at the end need not have been written.
const TAIL_SLACK: u64 = 64 << 20;

impl Handle {
    /// Begins to collect writes, on top of the newest commit. `hint`: the size of the first write, which
    /// is the page size if nothing else tells.
    pub(crate) fn begin_write(&mut self, hint: u32) -> Result<()> {
        self.check_poison()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if self.pending.is_some() {
            return Ok(());
        }
        if !self.attach()? {
            self.create()?;
        }
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        self.void_left_attempt(&shared)?;
        let mut writer = shared.writer.lock();
        let writer = &mut *writer;
        let newest = shared.state.read().tip;
        rewrite::run_if_needed(writer, &*self.file, shared.salt, &newest)?;
        if writer.header_lost {
            self.file.write_at(
                &Header {
                    version: FORMAT_VERSION,
                    salt: shared.salt,
                }
                .encode(),
                HEADER_OFF,
            )?;
            writer.header_lost = false;
        }
        let state = shared.state.read();
        if writer.account(&shared, &*self.file, &state)? {
            writer.reload_slots(&*self.file)?;
        }
        writer.find_free(&shared, &*self.file, &state)?;
        writer.learner.set_database_bytes(state.logical_len);
        writer.learner.set_level(self.options.level);
        writer.learner.set_choice(self.options.codec);
        writer
            .learner
            .set_reserved(usize::from(state.head[RESERVED_AT]));
        if !std::mem::replace(&mut writer.trained, true) {
            for d in &state.dicts {
                writer.learner.installed(
                    Family(d.family),
                    &shared.dictionary(&*self.file, &state, d.id)?,
                );
            }
        }
        let commit = state.highest.max(writer.last_attempt) + 1;
        let file_len = self.file.len()?;
        let problem = if commit >= MAX_COMMIT {
            Some(format!(
                "its number, {}, leaves none for a next one",
                commit - 1
            ))
        } else if state.tail_off > file_len + TAIL_SLACK {
            Some(format!(
                "it says that the file reaches to {}",
                state.tail_off
            ))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Error::Corrupt(Damage {
                what: "newest commit".to_owned(),
                offset: state.tip.off,
                page: None,
                problem,
            }));
        }
        writer.last_attempt = commit;
        // Another process may have cut the file.
        writer.physical_len = writer.physical_len.min(file_len);
        let mut appender = Appender::new(
            shared.salt,
            state.next_off,
            state.room_end,
            state.tail_off,
            &state.tip.hash,
        );
        if let Some((_, space)) = &mut writer.space {
            space.hold(state.current_extent(), state.tip.commit);
            appender.cut(space.end_after_cut(state.tail_off));
            space.cut(appender.tail_off());
        }
        let guess = if hint.is_power_of_two() && (512..=65536).contains(&hint) {
            hint
        } else {
            DEFAULT_PAGE
        };
        let page_size = if state.page_size == 0 {
            guess
        } else {
            state.page_size
        };
        self.pending = Some(Pending {
            pages: HashMap::new(),
            tip_before: state.tip_raw,
            tried: None,
            page_size,
            logical_len: state.logical_len,
            visible: state.pages(),
            head: state.head,
            batch: Vec::new(),
            batch_bytes: 0,
            inflight: VecDeque::new(),
            appender,
            commit,
            seq: 0,
            new_dicts: Vec::new(),
            keep_all: false,
            pressed: false,
            spare: Vec::new(),
        });
        Ok(())
    }

    /// Makes the empty file a store without pages. Slots first, then a sync, and the header last: so a file without a header
    /// that is no longer than the preamble holds nothing (rule 7).
    fn create(&mut self) -> Result<()> {
        let salt = densite_disk::random::random_u64()?;
        let tip = Tip {
            hash: first_hash(salt),
            ..Tip::default()
        };
        let mut pre = vec![0; DATA_OFF as usize];
        let mut put = |off: u64, bytes: &[u8]| {
            if let Some(to) = pre.get_mut(off as usize..off as usize + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        let slot = Slot {
            version: FORMAT_VERSION,
            seq: 1,
            salt,
            tip,
            flags: 0,
        }
        .encode();
        for off in [SLOT_OFF[0], SLOT_OFF[0] + SLOT_COPY] {
            put(off, &slot);
        }
        put(crate::format::TIP_OFF, &tip.encode(salt));
        self.file.write_at(&pre, 0)?;
        if let Err(e) = self.file.sync(SyncKind::Data) {
            self.poisoned = true;
            return Err(e.into());
        }
        self.file.write_at(
            &Header {
                version: FORMAT_VERSION,
                salt,
            }
            .encode(),
            HEADER_OFF,
        )?;
        if self.attach()? {
            return Ok(());
        }
        Err(Error::Corrupt(Damage {
            what: "new file".to_owned(),
            offset: 0,
            page: None,
            problem: "what was just written is not there".to_owned(),
        }))
    }
}
