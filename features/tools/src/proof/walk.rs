//! Walks all trees of one side with several threads.

use super::Side;
use crate::digest::{Digest, Key};
use crate::digester::{Digester, Odd, Piece};
use crate::error::Error;
use densite_sqlite_format::{Header, PageSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a thread that is ahead sleeps before it checks again.
const PACE: Duration = Duration::from_millis(1);

/// The progress of a walk, and its stop flag.
pub(super) struct Watch<'a> {
    pub(super) stop: &'a AtomicBool,
    pub(super) pages: AtomicU64,
    /// Whether a walk that has visited this many pages must wait for VACUUM.
    pub(super) ahead: &'a (dyn Fn(u64) -> bool + Sync),
}

/// The result of a walk.
pub(super) struct Walked {
    /// Digests in the order of the roots.
    pub(super) trees: Vec<Digest>,
    pub(super) seen: PageSet,
}

/// Walks the trees at `roots` with `threads` threads.
pub(super) fn digest(
    side: &dyn Side,
    roots: &[u32],
    header: &Header,
    key: Key,
    threads: usize,
    watch: &Watch<'_>,
) -> std::result::Result<Walked, Odd> {
    let mut reader = side.reader()?;
    let mut above = Digester::new(&mut *reader, header, key);
    let mut pieces: Vec<(usize, Piece)> = Vec::new();
    for (tree, root) in roots.iter().enumerate() {
        pieces.extend(above.pieces(*root)?.into_iter().map(|p| (tree, p)));
    }
    let mut seen = std::mem::take(&mut above.seen);
    drop(reader);

    let next = AtomicUsize::new(0);
    let work = || worker(side, header, key, &pieces, &next, watch);
    let parts = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let parts = running.into_iter().map(|thread| thread.join());
        parts.collect::<Vec<_>>()
    });
    let mut done = vec![Digest::default(); pieces.len()];
    for part in parts {
        let part = part.map_err(|_| Odd::Error(Error::panicked(Path::new(""))))??;
        if !seen.merge(&part.seen) {
            return Err(Odd::NotATree);
        }
        for (i, digest) in part.digests {
            if let Some(place) = done.get_mut(i) {
                *place = digest;
            }
        }
    }
    let mut trees = vec![Digest::default(); roots.len()];
    for ((tree, _), digest) in pieces.iter().zip(&done) {
        if let Some(whole) = trees.get_mut(*tree) {
            whole.append(key, digest);
        }
    }
    Ok(Walked { trees, seen })
}

/// The result of one thread.
struct Part {
    digests: Vec<(usize, Digest)>,
    seen: PageSet,
}

fn worker(
    side: &dyn Side,
    header: &Header,
    key: Key,
    pieces: &[(usize, Piece)],
    next: &AtomicUsize,
    watch: &Watch<'_>,
) -> std::result::Result<Part, Odd> {
    let mut reader = side.reader()?;
    let mut digester = Digester::new(&mut *reader, header, key);
    let mut digests = Vec::new();
    loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let Some((_, piece)) = pieces.get(i) else {
            break;
        };
        while (watch.ahead)(watch.pages.load(Ordering::Relaxed))
            && !watch.stop.load(Ordering::Relaxed)
        {
            densite_disk::wait::pause(PACE);
        }
        if watch.stop.load(Ordering::Relaxed) {
            break;
        }
        let digest = match *piece {
            Piece::Record(digest) => digest,
            Piece::Subtree {
                root,
                depth,
                above,
                up_to,
            } => {
                let before = digester.seen.len();
                let digest = digester.subtree(root, depth, above, up_to)?;
                let met = digester.seen.len() - before;
                watch.pages.fetch_add(met, Ordering::Relaxed);
                digest
            }
        };
        digests.push((i, digest));
    }
    Ok(Part {
        digests,
        seen: digester.seen,
    })
}
