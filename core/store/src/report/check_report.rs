//! Checks everything: every record that the newest commit reaches, and the accounting.

use super::walk::walk_state;
use crate::error::{Damage, Error, Result};
use crate::format::entry::Entry;
use crate::format::{UNIT_LEN, slot};
use crate::open_file::OpenFile;
use crate::shared::Shared;
use crate::space::Space;
use crate::state::State;
use crate::{frame, recover, writer};
use densite_disk::File;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Pages of the database.
    pub pages: u64,
    /// Pages whose frames were read, decoded and compared with their checksums.
    pub frames: u64,
    /// What is wrong. Empty if nothing is.
    pub problems: Vec<Damage>,
    /// A description of commits that were lost in a power cut before they were durable. This is not
    /// damage: the file has exactly an earlier published state.
    pub cut: Option<String>,
    /// Whether the last user closed the file, and nothing was published since.
    pub clean: bool,
}

/// The check stops after more problems than this.
const MAX_PROBLEMS: usize = 1000;

/// Verifies header, slots and trailers, every map node, every dictionary, every frame (checksum,
/// decoding, checksum of the page), and the space table. `progress` gets (pages done, pages in
/// all); false stops.
///
/// # Errors
/// I/O. Damage is part of the report and not an error, unless nothing at all can be read from the
/// file.
pub(crate) fn check(
    open: &mut OpenFile,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<CheckReport> {
    open.check_poison()?;
    let mut report = CheckReport::default();
    // Read from the file, because the state in memory can be better than the file.
    match recover::find(open.file()) {
        Ok(None) => {
            return Ok(CheckReport {
                clean: true,
                ..report
            });
        }
        Ok(Some(found)) => {
            report.cut = found.cut;
            report.clean =
                found.slot.1.tip == found.state.tip() && found.slot.1.flags & slot::CLEAN != 0;
        }
        Err(Error::Corrupt(d)) => report.problems.push(d),
        Err(e) => return Err(e),
    }
    if !open.attach()? {
        return Ok(report);
    }
    let shared = open.shared()?;
    let file = open.file();
    shared.forget_nodes();
    let mut seen = Seen::of(State::empty(shared.salt), 0);
    let walked = shared.while_it_moves(file, || {
        seen = Seen::of(shared.state.read().clone(), file.len()?);
        seen.walk(&shared, file)
    });
    note(&mut report, walked)?;
    report.pages = seen.state.pages();
    let check = Check {
        shared: &shared,
        file,
    };
    check.dictionaries(&mut seen, &mut report)?;
    if check.frames(&mut seen, &mut report, progress)? && report.problems.is_empty() {
        check.accounting(seen, &mut report)?;
    }
    Ok(report)
}

/// A check of one file, with what the process shares about it.
struct Check<'a> {
    shared: &'a Shared,
    file: &'a dyn File,
}

impl Check<'_> {
    fn dictionaries(&self, seen: &mut Seen, report: &mut CheckReport) -> Result<()> {
        let shared = self.shared;
        for d in seen.state.dicts() {
            if seen.inside(d.place.off, d.place.len) {
                seen.counted.add(d.place.off, u64::from(d.place.len));
            }
            let read = shared.while_it_moves(self.file, || {
                let state = shared.state.read();
                // It is not used any more.
                if state.dicts().iter().all(|now| now.id != d.id) {
                    return Ok(());
                }
                let dictionaries = &shared.dictionaries;
                let read = dictionaries.reread(self.file, shared.salt, &state, d.id);
                read.map(drop)
            });
            note(report, read)?;
        }
        Ok(())
    }

    /// Decodes every frame. Returns whether all were checked.
    fn frames(
        &self,
        seen: &mut Seen,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<bool> {
        let shared = self.shared;
        let (mut stored, mut raw) = (Vec::new(), Vec::new());
        let mut decode = |page: u32, e: &Entry, page_size: u32| {
            stored.resize(e.len as usize, 0);
            let n = self.file.read_at(&mut stored, e.off)?;
            raw.resize((page_size as usize) << e.run_log2, 0);
            let bytes = stored.get(..n).unwrap_or_default();
            let page_size = page_size as usize;
            frame::decode(shared, self.file, page, e, page_size, bytes, &mut raw)
        };
        let all = seen.entries.len() as u64;
        for (done, (page, e)) in (0..).zip(&seen.entries) {
            if seen.inside(e.off, e.len) {
                seen.counted.add_entry(e);
            }
            if !progress(done, all) || report.problems.len() > MAX_PROBLEMS {
                return Ok(false);
            }
            let mut read = decode(*page, e, seen.state.page_size());
            if matches!(read, Err(Error::Corrupt(_))) {
                read = shared.while_it_moves(self.file, || {
                    let (now, page_size) = {
                        let state = shared.state.read();
                        let now = shared.lookup(self.file, &state, *page)?;
                        (now, state.page_size())
                    };
                    if now.is_none() {
                        return Ok(());
                    }
                    decode(*page, &now, page_size)
                });
            }
            note(report, read)?;
            if u64::from(*page) > seen.state.pages() {
                report.problems.push(problem(
                    "page map",
                    e.off,
                    Some(*page),
                    "the page is beyond the end of the database",
                ));
            }
            report.frames += 1;
        }
        Ok(true)
    }

    /// Compares the accounting of space with what was counted.
    fn accounting(&self, seen: Seen, report: &mut CheckReport) -> Result<()> {
        let shared = self.shared;
        let (state, mut counted) = (seen.state, seen.counted);
        counted.add_fixed();
        let src = shared.table_source(self.file);
        let end = seen.end;
        let listed = src.each(&state.section().space, &mut |_, _, part| {
            if part.place.off + u64::from(part.place.len) <= end {
                counted.add(part.place.off, u64::from(part.place.len));
            }
            Ok(())
        });
        for (off, len) in state.trailers() {
            counted.add(*off, u64::from(*len));
        }
        let kept = listed
            .and_then(|()| writer::load(&shared.sources(self.file), &state))
            .and_then(|mut kept| {
                let differences = kept.differences(&counted, src, MAX_PROBLEMS)?;
                Ok((kept, differences))
            });
        // If another writer has published meanwhile, the comparison means nothing.
        if shared.has_moved_on(self.file, &state.tip())? {
            return Ok(());
        }
        let (kept, differences) = match kept {
            Ok(kept) => kept,
            Err(Error::Corrupt(d)) => {
                report.problems.push(d);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        for (unit, kept, counted) in differences {
            let what =
                format!("the space table has {kept} live bytes here, {counted} were counted");
            report
                .problems
                .push(problem("space accounting", unit * UNIT_LEN, None, &what));
        }
        for d in state.dicts() {
            let (kept, counted) = (kept.dict_uses.get(&d.id), counted.dict_uses.get(&d.id));
            if kept.copied().unwrap_or(0) != counted.copied().unwrap_or(0) {
                let what = format!("dictionary {}", d.id);
                report.problems.push(problem(
                    &what,
                    d.place.off,
                    None,
                    "the number of pages that use it is wrong",
                ));
            }
        }
        Ok(())
    }
}

/// The records that a commit reaches.
struct Seen {
    state: State,
    /// The length of the file. Records beyond it are not counted, because the count takes memory up
    /// to the highest offset. They are damage, which reading them shows.
    end: u64,
    counted: Space,
    /// Every page that has a frame, by its place.
    entries: Vec<(u32, Entry)>,
}

impl Seen {
    fn of(state: State, end: u64) -> Seen {
        Seen {
            state,
            end,
            counted: Space::default(),
            entries: Vec::new(),
        }
    }

    fn inside(&self, off: u64, len: u32) -> bool {
        off + u64::from(len) <= self.end
    }

    /// Walks the page map.
    fn walk(&mut self, shared: &Shared, file: &dyn File) -> Result<()> {
        let (counted, entries, end) = (&mut self.counted, &mut self.entries, self.end);
        let walked = walk_state(
            shared,
            file,
            &self.state,
            &mut |node| {
                if node.off + u64::from(node.len) <= end {
                    counted.add(node.off, u64::from(node.len));
                }
                Ok(())
            },
            &mut |page, e| {
                entries.push((page, e));
                Ok(())
            },
        );
        self.entries.sort_unstable_by_key(|e| e.1.off);
        walked
    }
}

fn problem(what: &str, offset: u64, page: Option<u32>, problem: &str) -> Damage {
    Damage {
        what: what.to_owned(),
        offset,
        page,
        problem: problem.to_owned(),
    }
}

fn note<T>(report: &mut CheckReport, result: Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(Error::Corrupt(d)) => {
            report.problems.push(d);
            Ok(())
        }
        Err(e) => Err(e),
    }
}
