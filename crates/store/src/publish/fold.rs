//! Folding: the map's changes since the last root trailer become new nodes, and a root trailer names them.

use super::commit::ByFold;
use crate::append::Appender;
use crate::codec;
use crate::error::Result;
use crate::format::record::{Kind, RECORD_LEN, Record};
use crate::format::trailer::{DictInfo, RootSection, Trailer};
use crate::map::tree::{self, Sink};
use crate::map::{Entry, NodeRef, Root};
use crate::options::CodecChoice;
use crate::pending::Pending;
use crate::shared::{Shared, Writer};
use crate::space::{CHUNK_UNITS, Space};
use densite_disk::File;
use std::collections::BTreeMap;

/// Appends nodes for a fold and keeps the accounting.
struct FoldSink<'a> {
    appender: &'a mut Appender,
    space: &'a mut Space,
    commit: u64,
}

impl Sink for FoldSink<'_> {
    fn append(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef> {
        self.appender
            .make_room(self.space, (RECORD_LEN + payload.len()) as u64, self.commit)?;
        let place = self.appender.push(record, payload);
        self.space.add(place.off, u64::from(place.len));
        Ok(place)
    }

    fn drop_node(&mut self, place: NodeRef) {
        self.space.sub(place.off, u64::from(place.len), self.commit);
    }
}

/// Folds overlay and deltas into new map nodes, writes the accounting, and makes the trailer a root trailer. Returns hashes of the chunks.
pub(super) fn fold_map(
    shared: &Shared,
    writer: &Writer,
    file: &dyn File,
    p: &mut Pending,
    space: &mut Space,
    trailer: &mut Trailer,
    anew: &ByFold,
) -> Result<Vec<u64>> {
    let now = shared.state.read();
    let mut changes: BTreeMap<u64, Entry> = now
        .overlay
        .iter()
        .map(|(page, e)| (u64::from(*page) - 1, *e))
        .collect();
    changes.extend(
        trailer
            .deltas
            .drain(..)
            .map(|(page, e)| (u64::from(page) - 1, e)),
    );
    for index in &anew.leaves {
        if let std::collections::btree_map::Entry::Vacant(unchanged) = changes.entry(*index) {
            unchanged.insert(tree::lookup(shared.source(file), now.root, *index)?);
        }
    }
    let changes: Vec<(u64, Entry)> = changes.into_iter().collect();
    let commit = p.commit;
    let mut sink = FoldSink {
        appender: &mut p.appender,
        space,
        commit,
    };
    let map: Root = tree::fold(shared.source(file), now.root, &changes, commit, &mut sink)?;
    for (off, len) in &now.trailers {
        space.sub(*off, u64::from(*len), commit);
    }
    // Dictionaries that no frame uses retire; their numbers are not used again. What this process has learned may wait for its family's
    // first page, as in a copy of a database whose tables come one after the other.
    let all: Vec<DictInfo> = now.dicts.iter().chain(&p.new_dicts).copied().collect();
    for d in &all {
        let uses = space.dict_uses.get(&d.id).copied().unwrap_or(0);
        let newest = all.iter().all(|n| n.family != d.family || n.id <= d.id + 1);
        if uses > 0 || newest && d.id >= writer.first_dict {
            let mut place = d.place;
            if let Some((record, payload)) = anew.dicts.get(&d.id) {
                let mut sink = FoldSink {
                    appender: &mut p.appender,
                    space,
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
        .max(p.new_dicts.iter().map(|d| d.id + 1).max().unwrap_or(1));

    // The table as stored leaves out what its loader adds: the preamble, the chunks themselves, trailers.
    let mut table = space.clone();
    table.sub_fixed();
    for (place, _) in &now.section.chunks {
        table.sub(place.off, u64::from(place.len), commit);
    }
    let mut chunks = Vec::new();
    let mut sums = Vec::new();
    for i in 0..(table.units() as usize).div_ceil(CHUNK_UNITS) {
        let raw = table.chunk(i);
        let sum = xxhash_rust::xxh3::xxh3_64(&raw);
        sums.push(sum);
        let old = now.section.chunks.get(i);
        if let Some((place, _)) = old
            && writer.chunk_sums.get(i) == Some(&sum)
            && !anew.chunks.contains(&i)
        {
            chunks.push((*place, table.chunk_free(i)));
            continue;
        }
        let mut payload = Vec::new();
        let coded = codec::encode(&raw, 1, None, CodecChoice::Zstd, &mut payload);
        let record = Record {
            codec: coded.codec.0,
            ..Record::plain(Kind::Space, i as u32, commit)
        };
        let mut sink = FoldSink {
            appender: &mut p.appender,
            space,
            commit,
        };
        let place = sink.append(record, &payload)?;
        if let Some((old, _)) = old {
            sink.drop_node(*old);
        }
        chunks.push((place, table.chunk_free(i)));
    }
    for (old, _) in now.section.chunks.iter().skip(chunks.len()) {
        space.sub(old.off, u64::from(old.len), commit);
    }
    trailer.root = Some(RootSection {
        map,
        next_dict,
        units: table.units(),
        chunks,
    });
    Ok(sums)
}
