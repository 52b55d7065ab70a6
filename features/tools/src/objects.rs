//! Determines which tables and indexes use the space of a database, page by page.

use crate::error::{Error, Result};
use crate::layout::{self, Layout, StoredLayout};
use crate::schema::Entry;
use crate::slack;
use crate::source::{self, Pages};
use crate::trees::{Owners, Walk};
use densite_disk::File;
use densite_sqlite::HostFile;
use densite_sqlite_format::fixed::{lock_page, pointer_maps};
use densite_sqlite_format::{Header, PageSet};
use densite_store::codec::CodecId;
use densite_store::{ColumnDescription, Handle, Subject};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The kind of an [`Object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A table with row ids.
    Table,
    /// A table without row ids.
    WithoutRowid,
    /// An index.
    Index,
    /// Not an object of the schema: pages that no interior page of a b-tree names and that are not
    /// free. These are the overflow pages of long values of all objects.
    Overflow,
    /// Not an object of the schema: pages on the freelist, pointer maps, and the lock page of
    /// SQLite.
    Free,
}

/// Pages that belong together. The sums of pages, raw bytes and stored bytes over all objects are
/// those of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name in the schema.
    pub name: Option<String>,
    /// The table of an index.
    pub table: Option<String>,
    /// Number of pages, without overflow pages.
    pub pages: u64,
    /// Their bytes, as SQLite sees them.
    pub raw_bytes: u64,
    /// Bytes of their frames. A frame of several pages counts in parts. `None` in a plain file.
    pub stored_bytes: Option<u64>,
    /// Unused bytes in its pages; see [`Objects::exact`]. 0 for objects that are not tables or
    /// indexes.
    pub unallocated_bytes: u64,
    /// Estimated number of pages after a rewrite.
    pub packed_pages: u64,
    /// Number of pages by name of their codec; "none" for pages without a frame (all zeros). Empty
    /// in a plain file.
    pub codecs: BTreeMap<&'static str, u64>,
    /// Pages that are coded with the model of `columns`, which is the most used one.
    pub model_pages: u64,
    /// The columns of its records, in order.
    pub columns: Vec<ObjectColumn>,
}

impl Object {
    /// Stored bytes for each raw byte; `None` for a plain file and for objects without pages.
    pub fn ratio(&self) -> Option<f64> {
        let stored = self.stored_bytes?;
        (self.raw_bytes > 0).then(|| stored as f64 / self.raw_bytes as f64)
    }
}

/// A column of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectColumn {
    /// Its name; `rowid` or `expression` if it has no name.
    pub name: String,
    /// How it is coded, in words; empty if this is unknown.
    pub encodings: Vec<String>,
}

/// All objects of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Objects {
    /// Largest first; overflow and free pages last.
    pub all: Vec<Object>,
    /// Pages of b-trees that could not be read. The pages below them count as overflow.
    pub broken: u64,
    /// Whether unallocated bytes were counted in every page. Otherwise they come from a sample.
    pub exact: bool,
    /// What lies where in the file.
    pub layout: Layout,
    /// Pages that have a frame, and those whose frame has more pages than outside of an archive.
    pub(crate) framed: u64,
    pub(crate) in_long_runs: u64,
}

/// Pointer maps that are counted in addition to one for each page of a tree. One page of a map
/// covers hundreds of pages, which can all be overflow pages.
const MAPS_MORE: usize = 4096;

/// Bytes of the pages in a usual frame. Frames of sparse pages can have more.
const USUAL_FRAME: u64 = 4096;
/// A frame of overflow pages or free pages has up to so many times that, in all files.
const USUAL_CHAIN: u64 = 16;

/// The bytes of a database that no other connection writes to.
pub(crate) enum Bytes<F> {
    /// A plain file of this many bytes.
    Plain(F, u64, PathBuf),
    /// A compressed file of this many logical bytes.
    Stored(Box<Handle>, u64, PathBuf),
}

impl<F: File> Pages for Bytes<F> {
    fn len(&self) -> u64 {
        match self {
            Bytes::Plain(_, len, _) | Bytes::Stored(_, len, _) => *len,
        }
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let n = match self {
            Bytes::Plain(file, _, path) => file
                .read_at(buf, offset)
                .map_err(|e| Error::from_disk(path, "read", &e))?,
            Bytes::Stored(store, _, path) => store
                .read_at(buf, offset)
                .map_err(|e| Error::from_store(path, "read", e))?,
        };
        if let Some(beyond) = buf.get_mut(n..) {
            beyond.fill(0);
        }
        Ok(())
    }
}

/// Counts of the frames of one owner.
#[derive(Default)]
struct Tally {
    framed: u64,
    stored: u64,
    codecs: BTreeMap<&'static str, u64>,
    models: HashMap<u32, u64>,
}

/// Determines the pages and frames of all objects of a file of `file_bytes`.
///
/// # Errors
/// I/O; damage of the page map.
pub(crate) fn objects(
    bytes: &mut Bytes<HostFile>,
    header: &Header,
    schema: &[Entry],
    file_bytes: u64,
) -> Result<Objects> {
    let size = u64::from(header.page_size);
    let total = bytes.len() / size;
    let count = u32::try_from(total).unwrap_or(u32::MAX);
    // Owners: the entries of the schema from 1, then the free pages. 0 stands for pages without an
    // owner.
    let free_owner = schema.len() as u32 + 1;
    let mut owners = Owners::new(count);
    let mut pages = vec![0u64; schema.len() + 2];
    let mut own = |owner: u32, n: u64| {
        if let Some(p) = pages.get_mut(owner as usize) {
            *p += n;
        }
    };
    let mut walk = Walk::new(bytes, header);
    let mut in_trees = 0;
    for (entry, owner) in schema.iter().zip(1..) {
        let pages = walk.tree(entry.root, owner, &mut owners)?;
        in_trees += pages;
        own(owner, pages);
    }
    let mut broken = walk.broken;
    let others = not_in_trees(bytes, header, count, &mut broken)?;
    // A damaged file can claim any number of pointer maps. Maps beyond the number that its trees
    // can use belong to no object.
    let most = usize::try_from(in_trees)
        .unwrap_or(usize::MAX)
        .saturating_add(MAPS_MORE);
    for page in others.list.pages().chain(others.maps.take(most)) {
        own(free_owner, u64::from(owners.give(page, free_owner)));
    }
    let owned: u64 = pages.iter().sum();
    if let Some(nobodys) = pages.first_mut() {
        *nobodys = total.saturating_sub(owned);
    }

    let slack = slack::slack(bytes, header, &owners, &pages, schema.len() as u32)?;
    let exact = slack.iter().all(|s| s.exact);

    let mut tallies: Vec<Tally> = Vec::new();
    let mut said = HashMap::new();
    let (mut framed, mut in_long_runs) = (0, 0);
    let mut stored = None;
    if let Bytes::Stored(store, _, path) = bytes {
        tallies.resize_with(pages.len(), Tally::default);
        let failed = |e| Error::from_store(path, "read", e);
        let grain = u64::from(store.page_size().map_err(failed)?);
        let usual_run = (USUAL_FRAME / grain.max(1)).max(1);
        let (units, unit_bytes) = store.live_by_unit().map_err(failed)?;
        let mut places = StoredLayout::new(units, unit_bytes, file_bytes);
        let mut count = |f: densite_store::FrameInfo| {
            framed += 1;
            // The store's pages are SQLite's, except for a moment while the page size changes. A
            // frame counts for the page at its start.
            let at = u64::from(f.page - 1) * grain / size + 1;
            let owner = u32::try_from(at).map_or(0, |page| owners.of(page));
            let is_in_tree = (1..free_owner).contains(&owner);
            let usual = match is_in_tree {
                true => usual_run,
                false => usual_run * USUAL_CHAIN,
            };
            let is_long = u64::from(f.run_pages) > usual && f.codec != CodecId::JOINED;
            in_long_runs += u64::from(is_long);
            let Some(tally) = tallies.get_mut(owner as usize) else {
                return;
            };
            places.add(owner, f.offset, f.stored_bytes);
            tally.framed += 1;
            tally.stored += f.stored_bytes;
            *tally.codecs.entry(f.codec.name()).or_default() += 1;
            if f.codec != CodecId::ZSTD_DICT && f.model != 0 {
                *tally.models.entry(f.model).or_default() += 1;
            }
        };
        store.each_frame(&mut count).map_err(failed)?;
        stored = Some(places);
        for id in tallies
            .iter()
            .filter_map(|t| most_used(t).map(|(id, _)| id))
        {
            // `check` reports a damaged model.
            if let Ok(Some(description)) = store.model_description(id) {
                said.insert(id, description);
            }
        }
    }

    let object = |kind, entry: Option<&Entry>, owner: usize| {
        let n = pages.get(owner).copied().unwrap_or(0);
        let tally = tallies.get(owner);
        let mut codecs = tally.map(|t| t.codecs.clone()).unwrap_or_default();
        if let Some(bare) = tally.map(|t| n.saturating_sub(t.framed)).filter(|n| *n > 0) {
            codecs.insert("none", bare);
        }
        let model = entry.and(tally).and_then(most_used);
        let slack = entry.and(slack.get(owner));
        Object {
            kind,
            name: entry.map(|e| e.name.clone()),
            table: entry.and_then(|e| e.table.clone()),
            pages: n,
            raw_bytes: n * size,
            stored_bytes: tally.map(|t| t.stored),
            unallocated_bytes: slack.map_or(0, |s| s.unallocated),
            packed_pages: slack.map_or(n, |s| s.packed_pages(n, u64::from(header.usable))),
            codecs,
            model_pages: model.map_or(0, |(_, n)| n),
            columns: entry
                .map(|e| columns(e, model.and_then(|(id, _)| said.get(&id))))
                .unwrap_or_default(),
        }
    };
    let mut all: Vec<(usize, Object)> = schema
        .iter()
        .zip(1..)
        .map(|(e, owner)| (owner, object(kind(e), Some(e), owner)))
        .collect();
    all.sort_by(|(_, a), (_, b)| {
        let size = |o: &Object| (o.stored_bytes, o.raw_bytes);
        size(b).cmp(&size(a)).then_with(|| a.name.cmp(&b.name))
    });
    all.push((0, object(ObjectKind::Overflow, None, 0)));
    let free = free_owner as usize;
    all.push((free, object(ObjectKind::Free, None, free)));
    let mut place = vec![0; pages.len()];
    for (i, (owner, _)) in all.iter().enumerate() {
        if let Some(place) = place.get_mut(*owner) {
            *place = i;
        }
    }
    let all = all.into_iter().map(|(_, object)| object).collect();
    let place = |owner: u32| place.get(owner as usize).copied().unwrap_or(0);
    let layout = match stored {
        Some(stored) => stored.layout(place),
        None => layout::of_pages(&owners, count, size, place),
    };
    Ok(Objects {
        all,
        broken,
        exact,
        layout,
        framed,
        in_long_runs,
    })
}

/// Pages that belong to no tree: the freelist, pointer maps and the lock page.
pub(crate) struct Others<M> {
    pub(crate) list: PageSet,
    pub(crate) maps: M,
}

/// Finds these pages. A malformed freelist counts as `broken`.
pub(crate) fn not_in_trees(
    pages: &mut dyn Pages,
    header: &Header,
    count: u32,
    broken: &mut u64,
) -> Result<Others<impl Iterator<Item = u32> + use<>>> {
    let mut list = PageSet::default();
    match source::freelist(pages, header) {
        Ok(Some(found)) => list = found.all,
        Ok(None) | Err(Error::Damaged { .. }) => *broken += 1,
        Err(e) => return Err(e),
    }
    let lock_page = lock_page(header.page_size);
    Ok(Others {
        list,
        maps: std::iter::once(lock_page).chain(pointer_maps(header, count)),
    })
}

fn kind(entry: &Entry) -> ObjectKind {
    match (&entry.table, entry.without_rowid) {
        (Some(_), _) => ObjectKind::Index,
        (None, true) => ObjectKind::WithoutRowid,
        (None, false) => ObjectKind::Table,
    }
}

/// The model with the most pages, and its number of pages.
fn most_used(tally: &Tally) -> Option<(u32, u64)> {
    let models = tally.models.iter().map(|(id, n)| (*id, *n));
    models.max_by_key(|(id, n)| (*n, std::cmp::Reverse(*id)))
}

/// The columns of an entry, with the encodings of the model.
fn columns(entry: &Entry, model: Option<&Vec<ColumnDescription>>) -> Vec<ObjectColumn> {
    let of = |subject: Subject| {
        let found = model.and_then(|m| m.iter().find(|d| d.subject == subject));
        found.map(|d| d.encodings.clone()).unwrap_or_default()
    };
    let mut columns: Vec<ObjectColumn> = entry
        .columns
        .iter()
        .zip(1..)
        .map(|(name, number)| ObjectColumn {
            name: name.clone(),
            encodings: of(Subject::Column(number)),
        })
        .collect();
    if kind(entry) == ObjectKind::Table {
        let encodings = of(Subject::Rowid);
        match entry.rowid_alias.and_then(|i| columns.get_mut(i)) {
            Some(alias) => alias.encodings = encodings,
            None => columns.insert(
                0,
                ObjectColumn {
                    name: "rowid".into(),
                    encodings,
                },
            ),
        }
    }
    columns
}
