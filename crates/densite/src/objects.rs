//! Where the space of a database is: its tables and indexes, page by page.

use crate::error::{Error, Result};
use crate::freelist::{self, LOCK_BYTE};
use crate::header::Header;
use crate::pages::Pages;
use crate::schema::Entry;
use crate::trees::{Owners, Walk};
use densite_disk::File;
use densite_sqlite::HostFile;
use densite_store::codec::CodecId;
use densite_store::{ColumnDescription, Handle, Subject};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// What an [`Object`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A table with row ids.
    Table,
    /// A table without row ids.
    WithoutRowid,
    /// An index.
    Index,
    /// Not an object of the schema: pages that no b-tree's interior pages name and that are not free, so overflow pages of long
    /// values of all objects.
    Overflow,
    /// Not an object of the schema: pages on the freelist, pointer maps, and the page that SQLite locks.
    Free,
}

/// Pages that belong together. Over all objects of a database pages, raw and stored bytes add up to its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name in the schema.
    pub name: Option<String>,
    /// The table that an index is of.
    pub table: Option<String>,
    /// Pages, those of overflowing values left out.
    pub pages: u64,
    /// Their bytes, as SQLite sees them.
    pub raw_bytes: u64,
    /// Bytes of their frames; of a frame of several pages, their share. `None` in a plain file.
    pub stored_bytes: Option<u64>,
    /// Pages by name of their codec, "none" where there is no frame (all zeros). Empty in a plain file.
    pub codecs: BTreeMap<&'static str, u64>,
    /// Pages that are coded by the model that `columns` tells of: the one that is used most.
    pub model_pages: u64,
    /// What its records hold, in their order.
    pub columns: Vec<ObjectColumn>,
}

/// A column of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectColumn {
    /// Its name; `rowid` and `expression` for what has none.
    pub name: String,
    /// How it is coded, in words; empty when that is not known.
    pub encodings: Vec<String>,
}

/// All objects of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// Largest first; overflow and free pages last.
    pub all: Vec<Object>,
    /// Pages of b-trees that could not be read: what lies below them is counted as overflow.
    pub broken: u64,
}

/// A database's bytes, under the caller's lock.
pub(crate) enum Bytes {
    /// A plain file of this many bytes.
    Plain(HostFile, u64, PathBuf),
    /// A compressed one, of this many logical bytes.
    Stored(Box<Handle>, u64, PathBuf),
}

impl Pages for Bytes {
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

/// What was counted of one owner's frames.
#[derive(Default)]
struct Tally {
    framed: u64,
    stored: u64,
    codecs: BTreeMap<&'static str, u64>,
    models: HashMap<u32, u64>,
}

/// Finds the objects' pages and frames.
///
/// # Errors
/// I/O; damage of the page map.
pub(crate) fn objects(bytes: &mut Bytes, header: &Header, schema: &[Entry]) -> Result<Objects> {
    let size = u64::from(header.page_size);
    let total = bytes.len() / size;
    let count = u32::try_from(total).unwrap_or(u32::MAX);
    // Owners: 1 on are the schema's, then the free pages; 0 is what nobody owns.
    let free_owner = schema.len() as u32 + 1;
    let mut owners = Owners::new(count);
    let mut pages = vec![0u64; schema.len() + 2];
    let mut own = |owner: u32, n: u64| {
        if let Some(p) = pages.get_mut(owner as usize) {
            *p += n;
        }
    };
    let mut walk = Walk::new(bytes, header);
    for (entry, owner) in schema.iter().zip(1..) {
        own(owner, walk.tree(entry.root, owner, &mut owners)?);
    }
    let mut broken = walk.broken;
    for page in not_in_trees(bytes, header, count, &mut broken)? {
        own(free_owner, u64::from(owners.give(page, free_owner)));
    }
    let owned: u64 = pages.iter().sum();
    if let Some(nobodys) = pages.first_mut() {
        *nobodys = total.saturating_sub(owned);
    }

    let mut tallies: Vec<Tally> = Vec::new();
    let mut said = HashMap::new();
    if let Bytes::Stored(store, _, path) = bytes {
        tallies.resize_with(pages.len(), Tally::default);
        let failed = |e| Error::from_store(path, "read", e);
        let grain = u64::from(store.page_size().map_err(failed)?);
        let mut count = |f: densite_store::FrameInfo| {
            // The store's pages are SQLite's but for a moment while the page size changes: a frame counts where it begins.
            let at = u64::from(f.page - 1) * grain / size + 1;
            let owner = u32::try_from(at).map_or(0, |page| owners.of(page));
            let Some(tally) = tallies.get_mut(owner as usize) else {
                return;
            };
            tally.framed += 1;
            tally.stored += f.stored_bytes;
            *tally.codecs.entry(f.codec.name()).or_default() += 1;
            if f.codec != CodecId::ZSTD_DICT && f.model != 0 {
                *tally.models.entry(f.model).or_default() += 1;
            }
        };
        store.each_frame(&mut count).map_err(failed)?;
        for id in tallies
            .iter()
            .filter_map(|t| most_used(t).map(|(id, _)| id))
        {
            // A damaged model is a matter for `check`.
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
        Object {
            kind,
            name: entry.map(|e| e.name.clone()),
            table: entry.and_then(|e| e.table.clone()),
            pages: n,
            raw_bytes: n * size,
            stored_bytes: tally.map(|t| t.stored),
            codecs,
            model_pages: model.map_or(0, |(_, n)| n),
            columns: entry
                .map(|e| columns(e, model.and_then(|(id, _)| said.get(&id))))
                .unwrap_or_default(),
        }
    };
    let mut all: Vec<Object> = schema
        .iter()
        .zip(1..)
        .map(|(e, owner)| object(kind(e), Some(e), owner))
        .collect();
    all.sort_by(|a, b| {
        let size = |o: &Object| (o.stored_bytes, o.raw_bytes);
        size(b).cmp(&size(a)).then_with(|| a.name.cmp(&b.name))
    });
    all.push(object(ObjectKind::Overflow, None, 0));
    all.push(object(ObjectKind::Free, None, free_owner as usize));
    Ok(Objects { all, broken })
}

/// Pages on the freelist, pointer maps and the lock page. A freelist that is not well formed counts as `broken`.
fn not_in_trees(
    pages: &mut dyn Pages,
    header: &Header,
    count: u32,
    broken: &mut u64,
) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    match freelist::list(pages, header) {
        Ok(Some(list)) => found.extend(list.all.pages()),
        Ok(None) | Err(Error::Damaged { .. }) => *broken += 1,
        Err(e) => return Err(e),
    }
    found.extend(u32::try_from(LOCK_BYTE / u64::from(header.page_size) + 1));
    if header.auto_vacuum {
        let every = header.usable / 5 + 1;
        // A map that would be the lock page is the page behind it.
        let lock_page = (LOCK_BYTE / u64::from(header.page_size) + 1) as u32;
        let maps = (2..=count).step_by(every as usize);
        found.extend(maps.map(|page| if page == lock_page { page + 1 } else { page }));
    }
    Ok(found)
}

fn kind(entry: &Entry) -> ObjectKind {
    match (&entry.table, entry.without_rowid) {
        (Some(_), _) => ObjectKind::Index,
        (None, true) => ObjectKind::WithoutRowid,
        (None, false) => ObjectKind::Table,
    }
}

/// The model that most pages are coded by, and how many these are.
fn most_used(tally: &Tally) -> Option<(u32, u64)> {
    let models = tally.models.iter().map(|(id, n)| (*id, *n));
    models.max_by_key(|(id, n)| (*n, std::cmp::Reverse(*id)))
}

/// The columns of an entry, as the model has them.
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
