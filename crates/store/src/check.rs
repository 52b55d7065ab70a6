//! Checking everything: every record the newest commit reaches, and the accounting.

use crate::error::{Damage, Error, Result};
use crate::format::{UNIT_LEN, slot};
use crate::handle::Handle;
use crate::map::Entry;
use crate::read::decode_frame;
use crate::recover;
use crate::space::Space;
use crate::stats::walk_state;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Pages of the database.
    pub pages: u64,
    /// Pages whose frames were read, decoded and compared with their checksums.
    pub frames: u64,
    /// What is wrong. Empty: nothing.
    pub problems: Vec<Damage>,
    /// Commits that a power cut took before they were durable, described. Not damage: what is there is exactly an
    /// earlier published state.
    pub cut: Option<String>,
    /// Whether the last user closed the file, and nothing was published since.
    pub clean: bool,
}

/// More problems than this are not listed: the file is a ruin.
const MAX_PROBLEMS: usize = 1000;

impl Handle {
    /// Verifies header, slots and trailers, every map node, every dictionary, every frame (checksum, decoding, checksum of the
    /// page), and that the accounting of space is exact. `progress` gets (pages done, pages there are); false stops.
    ///
    /// # Errors
    /// I/O. Damage is not an error here but part of the report, except where nothing can be said of the file at all.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<CheckReport> {
        self.check_poison()?;
        let mut report = CheckReport::default();
        // From the file anew: what this process remembers may be better than what is there.
        match recover::find(&*self.file) {
            Ok(None) => {
                return Ok(CheckReport {
                    clean: true,
                    ..report
                });
            }
            Ok(Some(found)) => {
                report.cut = found.cut;
                report.clean =
                    found.slot.1.tip == found.state.tip && found.slot.1.flags & slot::CLEAN != 0;
            }
            Err(Error::Corrupt(d)) => report.problems.push(d),
            Err(e) => return Err(e),
        }
        if !self.attach()? {
            return Ok(report);
        }
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let state = shared.state.read().clone();
        report.pages = state.pages();
        shared.nodes.clear();

        // The count grows with what is added: what lies beyond the end is damage, which reading it will show.
        let end = self.file.len()?;
        let inside = |off: u64, len: u32| off + u64::from(len) <= end;
        let mut counted = Space::default();
        let mut entries: Vec<(u32, Entry)> = Vec::new();
        let walked = walk_state(
            &shared,
            &*self.file,
            &state,
            &mut |node| {
                if inside(node.off, node.len) {
                    counted.add(node.off, u64::from(node.len));
                }
                Ok(())
            },
            &mut |page, e| {
                entries.push((page, e));
                Ok(())
            },
        );
        note(&mut report, walked)?;
        entries.sort_unstable_by_key(|e| e.1.off);
        for d in &state.dicts {
            if inside(d.place.off, d.place.len) {
                counted.add(d.place.off, u64::from(d.place.len));
            }
            let read = shared.reread_dictionary(&*self.file, &state, d.id);
            note(&mut report, read)?;
        }
        let (mut stored, mut raw) = (Vec::new(), Vec::new());
        for (done, (page, e)) in entries.iter().enumerate() {
            if inside(e.off, e.len) {
                counted.add_entry(e);
            }
            if !progress(done as u64, entries.len() as u64) || report.problems.len() > MAX_PROBLEMS
            {
                return Ok(report);
            }
            stored.resize(e.len as usize, 0);
            let n = self.file.read_at(&mut stored, e.off)?;
            raw.resize((state.page_size as usize) << e.run_log2, 0);
            let bytes = stored.get(..n).unwrap_or_default();
            let read = decode_frame(
                &shared,
                &*self.file,
                *page,
                e,
                state.page_size as usize,
                bytes,
                &mut raw,
            );
            note(&mut report, read)?;
            if u64::from(*page) > state.pages() {
                report.problems.push(problem(
                    "page map",
                    e.off,
                    Some(*page),
                    "the page lies beyond the end of the database",
                ));
            }
            report.frames += 1;
        }
        if !report.problems.is_empty() {
            return Ok(report);
        }
        // Somebody else may have gone on meanwhile; then this says nothing.
        if shared.refresh(&*self.file)? || shared.state.read().tip != state.tip {
            return Ok(report);
        }
        counted.add_fixed();
        for (place, _) in &state.section.chunks {
            counted.add(place.off, u64::from(place.len));
        }
        for (off, len) in &state.trailers {
            counted.add(*off, u64::from(*len));
        }
        match crate::write::load_space(&shared, &*self.file, &state) {
            Err(Error::Corrupt(d)) => report.problems.push(d),
            Err(e) => return Err(e),
            Ok(kept) => {
                for (unit, kept, counted) in kept.differences(&counted) {
                    let what =
                        format!("{kept} live bytes are accounted here, {counted} were counted");
                    report
                        .problems
                        .push(problem("space accounting", unit * UNIT_LEN, None, &what));
                }
                for d in &state.dicts {
                    let (kept, counted) = (kept.dict_uses.get(&d.id), counted.dict_uses.get(&d.id));
                    if kept.copied().unwrap_or(0) != counted.copied().unwrap_or(0) {
                        let what = format!("dictionary {}", d.id);
                        report.problems.push(problem(
                            &what,
                            d.place.off,
                            None,
                            "the count of its uses is wrong",
                        ));
                    }
                }
            }
        }
        Ok(report)
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
