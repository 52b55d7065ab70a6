//! Folding: the map's changes since the last root trailer become new nodes, and a root trailer
//! names them.

use crate::append::Appender;
use crate::by_fold::ByFold;
use crate::error::Result;
use crate::format::entry::{Entry, NodeRef, Root};
use crate::format::record::{RECORD_LEN, Record};
use crate::format::space_table::Table;
use crate::format::trailer::{DictInfo, RootSection, Trailer};
use crate::map::tree::{self, Sink};
use crate::shared::Shared;
use crate::space::{Space, chunk_tree};
use crate::transaction::Transaction;
use crate::writer::Writer;
use densite_disk::File;
use std::collections::{BTreeMap, BTreeSet};

/// Appends the records of a fold.
struct FoldSink<'a> {
    appender: &'a mut Appender,
    space: &'a mut Space,
    file: &'a dyn File,
    commit: u64,
}

impl FoldSink<'_> {
    /// Appends a record that is not accounted for.
    fn append_uncounted(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef> {
        self.appender
            .make_room(self.space, (RECORD_LEN + payload.len()) as u64, self.commit)?;
        let place = self.appender.push(record, payload);
        self.appender.flush_if_long(self.file)?;
        Ok(place)
    }
}

/// Accounts for nodes of the map and dictionaries at once.
impl Sink for FoldSink<'_> {
    fn append(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef> {
        let place = self.append_uncounted(record, payload)?;
        self.space.add(place.off, u64::from(place.len));
        Ok(place)
    }

    fn drop_node(&mut self, place: NodeRef) {
        self.space.sub(place.off, u64::from(place.len), self.commit);
    }
}

/// Notes added and dropped chunks and indexes of the space table, which are accounted for after
/// they are written.
struct TableSink<'a> {
    fold: FoldSink<'a>,
    placed: Vec<NodeRef>,
    dropped: Vec<NodeRef>,
}

impl chunk_tree::Sink for TableSink<'_> {
    fn append(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef> {
        let place = self.fold.append_uncounted(record, payload)?;
        self.placed.push(place);
        Ok(place)
    }

    fn drop_record(&mut self, place: NodeRef) {
        self.dropped.push(place);
    }
}

/// Folds overlay and deltas into new map nodes, writes the accounting, and makes the trailer a root
/// trailer.
pub(super) fn fold_map(
    shared: &Shared,
    writer: &Writer,
    file: &dyn File,
    p: &mut Transaction,
    space: &mut Space,
    trailer: &mut Trailer,
    rewrite: &ByFold,
) -> Result<()> {
    let now = shared.state.read();
    let mut changes: BTreeMap<u64, Entry> = now
        .overlay()
        .iter()
        .map(|(page, e)| (u64::from(*page) - 1, *e))
        .collect();
    changes.extend(
        trailer
            .deltas
            .drain(..)
            .map(|(page, e)| (u64::from(page) - 1, e)),
    );
    for index in &rewrite.leaves {
        if let std::collections::btree_map::Entry::Vacant(unchanged) = changes.entry(*index) {
            unchanged.insert(tree::lookup(shared.source(file), now.root(), *index)?);
        }
    }
    let changes: Vec<(u64, Entry)> = changes.into_iter().collect();
    let commit = p.number();
    let mut sink = FoldSink {
        appender: p.appender(),
        space,
        file,
        commit,
    };
    let map: Root = tree::fold(shared.source(file), now.root(), &changes, commit, &mut sink)?;
    for (off, len) in now.trailers() {
        space.sub(*off, u64::from(*len), commit);
    }
    // Dictionaries that no frame uses are dropped, and their numbers are not used again. The newest
    // of a family from this process are kept, because the family's first page may still come. A
    // copy of a database, for example, writes one table after the other.
    let all: Vec<DictInfo> = now.dicts().iter().chain(p.new_dicts()).copied().collect();
    for d in &all {
        let uses = space.dict_uses.get(&d.id).copied().unwrap_or(0);
        let newest = all.iter().all(|n| n.family != d.family || n.id <= d.id + 1);
        if uses > 0 || newest && writer.learning.is_own(d.id) {
            let mut place = d.place;
            if let Some((record, payload)) = rewrite.dicts.get(&d.id) {
                let mut sink = FoldSink {
                    appender: p.appender(),
                    space,
                    file,
                    commit,
                };
                place = sink.append(*record, payload)?;
                sink.drop_node(d.place);
            }
            trailer.dicts.push(DictInfo {
                uses: u64::try_from(uses).unwrap_or(0),
                place,
                ..*d
            });
        } else {
            space.sub(d.place.off, u64::from(d.place.len), commit);
            space.dict_uses.remove(&d.id);
        }
    }
    let next_dict = now
        .next_dict()
        .max(p.new_dicts().iter().map(|d| d.id + 1).max().unwrap_or(1));

    let mut table = store_table(
        shared,
        file,
        p,
        space,
        &now.section().space,
        &rewrite.chunks,
    )?;
    table.moved = space.moved_list();
    trailer.root = Some(RootSection {
        map,
        next_dict,
        space: table,
    });
    Ok(())
}

/// The most passes that store the changes which storing the table itself made, if they are too many
/// for a trailer. Each pass has much fewer, because records that are stored together are adjacent.
const PASSES: usize = 8;

/// Writes the changed chunks of the space table, and the indexes above them.
fn store_table(
    shared: &Shared,
    file: &dyn File,
    p: &mut Transaction,
    space: &mut Space,
    stored: &Table,
    rewrite: &BTreeSet<u32>,
) -> Result<Table> {
    let src = shared.table_source(file);
    let commit = p.number();
    let mut due = space.due(rewrite);
    let mut table = stored.clone();
    for pass in 0..PASSES {
        if pass > 0 {
            // This pass reads what the previous one has written.
            p.appender().flush(file)?;
        }
        let units = space.units();
        let mut parts = BTreeMap::new();
        let mut placed = Vec::new();
        for chunk in due {
            let keep = space.is_resident(chunk) || space.has_room();
            space.load(src, chunk, commit)?;
            let (raw, mut part) = space.chunk(chunk);
            if part.live > 0 {
                let (record, payload) = chunk_tree::encode(&raw, 0, chunk, commit);
                let mut sink = FoldSink {
                    appender: p.appender(),
                    space,
                    file,
                    commit,
                };
                part.place = sink.append_uncounted(record, &payload)?;
                placed.push(part.place);
            }
            space.was_stored(chunk, &part, keep);
            parts.insert(chunk, part);
        }
        let mut sink = TableSink {
            fold: FoldSink {
                appender: p.appender(),
                space,
                file,
                commit,
            },
            placed,
            dropped: Vec::new(),
        };
        table = chunk_tree::update(src, &table, units, &parts, commit, &mut sink)?;
        let TableSink {
            placed, dropped, ..
        } = sink;
        space.stored_as(&table);
        for place in placed {
            space.moved(place.off, u64::from(place.len), 1, commit);
        }
        for place in dropped {
            space.moved(place.off, u64::from(place.len), -1, commit);
        }
        if !space.moved_much() {
            break;
        }
        due = space.due(&space.moved_chunks());
    }
    Ok(table)
}
