//! Pages encoded before they are asked for.
//!
//! In WAL mode a page is written twice: to the WAL when it changes, and to the database when a checkpoint follows, on some committing
//! connection's path. Encoding takes longer than everything else a checkpoint does, and the pool has nothing to do until then. So whoever
//! sees pages on their way to the WAL notes them here, the pool encodes them, and the checkpoint finds its frames ready.
//!
//! - What was encoded early is used only for a page of the same number and the same bytes, every one of them compared, and only while what
//!   it was encoded by still holds ([`EarlyFrame::holds`]). So nothing that is noted can be wrong: at worst it is of no use.
//! - A page that changes often is not encoded each time: only pages behind which [`YOUNGER`] others were noted are, and a page noted
//!   again goes to the end.
//! - Sparse neighbours are left to the checkpoint, which stores them in one frame (`sparse`).
//! - When more is noted than the database had pages, then pages of families that nothing was learned of yet are left to the checkpoint as well: it begins
//!   with a lesson, and stores them the smaller way.
//! - Memory is bounded ([`BUDGET_BYTES`]), and so is work done in vain: what does not fit is encoded by the checkpoint. A bulk load's pages are.
//! - Nobody waits here: who meets the lock taken does without.

use crate::codec::Dictionary;
use crate::codec::family::Family;
use crate::format::record::Record;
use crate::pending::{EncodeSettings, Frame, Job, encode_batch};
use crate::pool::Pool;
use crate::sparse::may_join;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Raw bytes of the pages kept: twice what SQLite lets a WAL of 4 KiB pages grow to before it checkpoints.
const BUDGET_BYTES: usize = 8 << 20;
/// Pages noted last, which may well change again.
const YOUNGER: usize = 32;
/// Pages that a worker encodes before others get their turn.
const STRETCH: usize = 16;
/// How many pages the database may have grown by since a page was encoded. Scrubbing allows for 2^24 (`densite_typed::scrub`): this is
/// the part of them that goes to what is noted here.
const GROWTH_PAGES: u32 = 1 << 20;

/// A page encoded before its commit.
pub(crate) struct EarlyFrame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    pub(crate) family: Family,
    /// What it was coded with, if anything.
    dict: Option<Arc<Dictionary>>,
    pages: u32,
    reserved: usize,
}

/// The dictionary of that number with which pages of the family are coded.
fn dictionary(set: &EncodeSettings, family: Family, id: u32) -> Option<&Arc<Dictionary>> {
    let of = |family| set.dicts.get(&family).into_iter().flatten();
    of(family).chain(of(Family::OTHER)).find(|d| d.id() == id)
}

impl EarlyFrame {
    /// A frame of one page that was coded with these settings.
    pub(crate) fn of(frame: Frame, set: &EncodeSettings) -> EarlyFrame {
        EarlyFrame {
            dict: dictionary(set, frame.family, frame.record.model).cloned(),
            record: frame.record,
            payload: frame.payload,
            family: frame.family,
            pages: set.pages,
            reserved: set.reserved,
        }
    }

    /// Whether a commit with these settings may use it: its dictionary is still one that its family gets, and the database is, for
    /// scrubbing, what it was. The same number alone does not do: that of a dictionary whose commit was given up may be another's by now.
    pub(crate) fn holds(&self, set: &EncodeSettings) -> bool {
        let known = self.dict.as_ref().is_some_and(|mine| {
            dictionary(set, self.family, mine.id())
                .is_some_and(|now| Arc::ptr_eq(now, mine) || now.bytes() == mine.bytes())
        });
        self.reserved == set.reserved
            && set.pages <= self.pages.saturating_add(GROWTH_PAGES)
            && (self.record.model == 0 || known)
    }
}

/// A page that was noted.
pub(crate) struct Noted {
    pub(crate) bytes: Arc<[u8]>,
    /// Tells this note from later ones of the same page.
    seq: u64,
    pub(crate) frame: Option<Arc<EarlyFrame>>,
}

#[derive(Default)]
struct Desk {
    /// How the last commit encoded, and where; `None` before the first, and when there is no pool.
    by: Option<(EncodeSettings, Arc<Pool>)>,
    pages: HashMap<u32, Noted>,
    bytes: usize,
    /// Pages to encode, the oldest first; one whose number has changed hands since is passed over.
    waiting: VecDeque<(u32, u64)>,
    seq: u64,
    /// A worker is at it.
    running: bool,
}

/// Pages on their way to a WAL, of one file in this process. See the module's documentation.
#[derive(Default)]
pub struct Early {
    desk: Mutex<Desk>,
}

impl Early {
    /// Notes a page that is being written to the WAL. Never fails and never waits.
    pub fn note(self: &Arc<Self>, page: u32, bytes: &[u8]) {
        let Some(mut desk) = self.desk.try_lock() else {
            return;
        };
        let desk = &mut *desk;
        let Some((_, pool)) = &desk.by else { return };
        let replaced = desk.pages.get(&page).map_or(0, |p| p.bytes.len());
        if desk.bytes - replaced + bytes.len() > BUDGET_BYTES {
            return;
        }
        desk.bytes = desk.bytes - replaced + bytes.len();
        desk.seq += 1;
        desk.waiting.push_back((page, desk.seq));
        let noted = Noted {
            bytes: bytes.into(),
            seq: desk.seq,
            frame: None,
        };
        desk.pages.insert(page, noted);
        // What changes often leaves many entries behind; they must not pile up while the pool is busy.
        while let Some((page, seq)) = desk.waiting.front()
            && desk.pages.get(page).is_none_or(|noted| noted.seq != *seq)
        {
            desk.waiting.pop_front();
        }
        if desk.waiting.len() > YOUNGER && !desk.running {
            let early = Arc::clone(self);
            desk.running = pool.submit(Box::new(move || early.work())).is_ok();
        }
    }

    /// Forgets everything: the WAL begins anew, so what was noted has reached the database.
    pub fn forget(&self) {
        if let Some(mut desk) = self.desk.try_lock() {
            desk.pages.clear();
            desk.waiting.clear();
            desk.bytes = 0;
        }
    }

    /// Pages noted whose frames are ready.
    pub fn ready(&self) -> usize {
        let desk = self.desk.lock();
        desk.pages.values().filter(|p| p.frame.is_some()).count()
    }

    /// Tells how commits encode now. Runs of several pages cannot be foreseen.
    pub(crate) fn renew(&self, set: &EncodeSettings, pool: Option<&Arc<Pool>>) {
        if let Some(mut desk) = self.desk.try_lock() {
            desk.by = pool
                .filter(|_| set.run_pages == 1)
                .map(|pool| (set.clone(), Arc::clone(pool)));
        }
    }

    /// What is known of a page that comes to the database as `bytes`: the same bytes, not to be copied again, and its frame if that is ready.
    pub(crate) fn take(&self, page: u32, bytes: &[u8]) -> Option<Noted> {
        let mut desk = self.desk.try_lock()?;
        // Bytes that differ are of another moment, and may come yet.
        if *desk.pages.get(&page)?.bytes != *bytes {
            return None;
        }
        let noted = desk.pages.remove(&page)?;
        desk.bytes -= noted.bytes.len();
        Some(noted)
    }

    /// Encodes what has waited long enough, up to [`STRETCH`] pages.
    fn work(&self) {
        for _ in 0..STRETCH {
            let Some((job, set)) = self.next() else {
                break;
            };
            let (page, seq) = (job.page, job.seq);
            let frame = encode_batch(vec![job], &set).into_iter().next();
            let mut desk = self.desk.lock();
            if let Some(noted) = desk.pages.get_mut(&page).filter(|noted| noted.seq == seq) {
                noted.frame = frame.map(|f| Arc::new(EarlyFrame::of(f, &set)));
            }
        }
        self.desk.lock().running = false;
    }

    /// The page to encode next, and how.
    fn next(&self) -> Option<(Job, EncodeSettings)> {
        let mut desk = self.desk.lock();
        let desk = &mut *desk;
        while desk.waiting.len() > YOUNGER {
            let (page, seq) = desk.waiting.pop_front()?;
            if let Some(noted) = desk.pages.get(&page)
                && noted.seq == seq
            {
                let set = &desk.by.as_ref()?.0;
                let family = Family::of(&noted.bytes);
                if desk.pages.len() > set.pages as usize && !set.dicts.contains_key(&family) {
                    continue;
                }
                let joins = |neighbour: u32| {
                    let other = desk.pages.get(&neighbour);
                    other.is_some_and(|other| may_join(set, &noted.bytes, &other.bytes))
                };
                if joins(page.wrapping_sub(1)) || joins(page.wrapping_add(1)) {
                    continue;
                }
                let job = Job {
                    page,
                    seq,
                    bytes: Arc::clone(&noted.bytes),
                    family,
                    early: None,
                };
                return Some((job, set.clone()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::CodecId;
    use crate::format::record::Kind;
    use crate::{CodecChoice, Handle, Options};
    use densite_disk::{OpenMode, RealFile};
    use std::time::{Duration, Instant};

    fn page(fill: u32) -> Vec<u8> {
        (0..1024u32)
            .flat_map(|i| (i / 7 * fill).to_le_bytes())
            .collect()
    }

    /// A store of 200 pages whose commits use a thread.
    fn store(run_pages: u32) -> (tempfile::TempDir, Handle, Arc<Early>) {
        let dir = tempfile::tempdir().expect("a directory");
        let file = RealFile::open(dir.path().join("x.db"), OpenMode::Create).expect("opens");
        let options = Options {
            threads: 1,
            run_pages,
            codec: CodecChoice::Zstd,
            ..Options::default()
        };
        let mut handle = Handle::open(Box::new(file), "x", options).expect("a store");
        for n in 1..=200 {
            handle
                .write_at(&page(n), u64::from(n - 1) * 4096)
                .expect("writes");
        }
        handle.publish().expect("publishes");
        let early = handle.early().expect("a store");
        (dir, handle, early)
    }

    /// Notes a page whatever the pool does meanwhile.
    fn note(early: &Arc<Early>, n: u32, bytes: &[u8]) {
        while early
            .desk
            .lock()
            .pages
            .get(&n)
            .is_none_or(|noted| *noted.bytes != *bytes)
        {
            early.note(n, bytes);
        }
    }

    #[test]
    fn what_was_noted_is_encoded_and_used_and_what_changed_is_not() {
        let (_dir, mut handle, early) = store(1);
        for n in 1..=100 {
            note(&early, n, &page(n + 1000));
        }
        // A worker may have stopped between two notes; the next note sends it on.
        let until = Instant::now() + Duration::from_secs(20);
        for again in 0.. {
            early.note(101, &page(again));
            if early.ready() >= 60 {
                break;
            }
            assert!(Instant::now() < until, "{} are ready", early.ready());
            std::thread::sleep(Duration::from_millis(1));
        }
        // Who writes does not wait for the worker, and then encodes himself.
        while early.desk.lock().running {
            std::thread::sleep(Duration::from_millis(1));
        }
        for n in 1..=60 {
            // Every third is something else by now.
            let content = if n % 3 == 0 { n + 5000 } else { n + 1000 };
            handle
                .write_at(&page(content), u64::from(n - 1) * 4096)
                .expect("writes");
        }
        for n in 1..=60 {
            let taken = !early.desk.lock().pages.contains_key(&n);
            assert_eq!(
                taken,
                n % 3 != 0,
                "page {n}: those that are the same are taken"
            );
        }
        handle.publish().expect("publishes");
        let mut read = vec![0; 4096];
        for n in 1..=200 {
            let content = match n {
                1..=60 if n % 3 == 0 => n + 5000,
                1..=60 => n + 1000,
                _ => n,
            };
            handle
                .read_at(&mut read, u64::from(n - 1) * 4096)
                .expect("reads");
            assert!(read == page(content), "page {n}");
        }
        let report = handle.check(&mut |_, _| true).expect("checks");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        early.forget();
        assert_eq!(early.ready(), 0);
    }

    /// Another process may have given the number of a dictionary whose commit was never made here.
    #[test]
    fn a_frame_of_another_dictionary_of_the_same_number_is_of_no_use() {
        let (_dir, mut handle, _early) = store(1);
        handle.write_at(&page(7), 0).expect("writes");
        let set = handle.encode_settings().expect("settings");
        let with = |bytes: &[u8]| {
            let dict = Dictionary::new(5, CodecId::ZSTD_DICT, bytes.to_vec());
            EncodeSettings {
                dicts: Arc::new([(Family::OTHER, vec![Arc::new(dict)])].into()),
                ..set.clone()
            }
        };
        let frame = Frame {
            record: Record {
                model: 5,
                ..Record::plain(Kind::Frame, 1, 1)
            },
            payload: Vec::new(),
            seqs: vec![1],
            family: Family::of(&page(7)),
        };
        let early = EarlyFrame::of(frame, &with(b"what one has learned"));
        assert!(early.holds(&with(b"what one has learned")));
        assert!(!early.holds(&with(b"what another has learned")));
        assert!(!early.holds(&set));
    }

    /// What giving space back codes anew keeps every byte; what SQLite writes next need not.
    #[test]
    fn giving_back_does_not_change_how_pages_are_encoded() {
        let (_dir, mut handle, early) = store(1);
        let pages = || early.desk.lock().by.as_ref().map(|(set, _)| set.pages);
        assert_eq!(pages(), Some(200));
        handle.write_at(&page(1000), 0).expect("writes");
        handle.pending.as_mut().expect("just written").keep_all = true;
        handle.publish().expect("publishes");
        assert_eq!(pages(), Some(200));
    }

    #[test]
    fn a_page_that_changes_all_the_time_is_left_to_the_checkpoint() {
        let (_dir, _handle, early) = store(1);
        for i in 0..2000 {
            early.note(i % 3 + 1, &page(i));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(early.ready(), 0);
        assert!(early.desk.lock().waiting.len() <= YOUNGER + 3);
    }

    #[test]
    fn a_bulk_load_of_what_nothing_is_known_of_is_left_to_the_checkpoint() {
        let (_dir, _handle, early) = store(1);
        // More pages than the database has.
        for n in 0..400 {
            note(&early, n + 1000, &page(n));
        }
        let desk = || early.desk.lock();
        let until = Instant::now() + Duration::from_secs(20);
        for again in 0.. {
            // All but the first of them were seen among more pages than the database has; the worker has passed over the last.
            if desk().waiting.len() <= YOUNGER {
                break;
            }
            early.note(999, &page(again));
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(early.ready() <= 200, "{} are ready", early.ready());
        for n in 200..360 {
            assert!(desk().pages[&(n + 1000)].frame.is_none(), "page {n}");
        }
    }

    #[test]
    fn memory_is_bounded_and_runs_are_not_foreseen() {
        let (_dir, _handle, early) = store(1);
        for n in 0..BUDGET_BYTES as u32 / 4096 {
            note(&early, n, &page(n));
        }
        for n in 0..1000 {
            early.note(n + 4000, &page(n));
        }
        assert!(early.desk.lock().bytes <= BUDGET_BYTES);
        assert!(early.desk.lock().pages.len() * 4096 > BUDGET_BYTES - 4096);
        let (_dir, _handle, early) = store(4);
        early.note(1, &page(1));
        assert!(early.desk.lock().pages.is_empty());
    }
}
