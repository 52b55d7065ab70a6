//! The results that writers and subscribers got, and the rules that they must obey.

use std::collections::{BTreeMap, BTreeSet};

/// The number of a row in the log.
pub(crate) type Seq = u64;

/// The result of a transaction, as the writer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Committed; the number of its last row.
    Committed(Seq),
    /// Rolled back.
    Nothing,
    /// The writer was killed before it got the result.
    Unknown,
}

/// One transaction: its rows in order. The text of every row is unique.
#[derive(Debug, Clone)]
pub(crate) struct Txn {
    pub(crate) writer: u64,
    pub(crate) rows: Vec<String>,
    pub(crate) told: Told,
}

/// One batch of a subscriber: the position before it, and the numbers of its rows.
pub(crate) type Batch = (Seq, Vec<Seq>);

/// A subscription, from its creation to its removal or the end of the history.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    pub(crate) name: String,
    /// The row after which it began.
    pub(crate) began: Seq,
    pub(crate) batches: Vec<Batch>,
    /// The last returned position.
    pub(crate) position: Seq,
    /// The position of an acknowledgement whose result is unknown because of a kill.
    pub(crate) asked: Option<Seq>,
    /// Whether it existed at the end and read to the end.
    pub(crate) at_end: bool,
}

impl Life {
    /// Adds the output of one of its processes. If an acknowledgement was cut off, returns whether
    /// it took effect.
    pub(crate) fn hear(&mut self, lines: &[String], seen: &mut Seen) -> Option<bool> {
        let (mut batch, mut cut_off) = (Vec::new(), None);
        for line in lines {
            let mut words = line.splitn(3, ' ');
            let word = words.next().unwrap_or_default();
            let number = words.next().map(|n| n.parse::<Seq>().expect("a number"));
            match (word, number) {
                ("at", Some(at)) => {
                    let asked = self.asked.take();
                    assert!(
                        at == self.position || asked == Some(at),
                        "{}: at {at}, but it was at {} and asked for {asked:?}",
                        self.name,
                        self.position
                    );
                    cut_off = asked.filter(|a| *a > self.position).map(|a| a == at);
                    self.position = at;
                }
                ("row", Some(seq)) => {
                    batch.push(seq);
                    seen.add(seq, words.next().unwrap_or_default(), &self.name);
                }
                ("read", None) => self.add(std::mem::take(&mut batch)),
                ("acking", Some(to)) => self.asked = Some(to),
                ("acked", Some(at)) => {
                    assert_eq!(Some(at), self.asked.take(), "{}: acknowledged", self.name);
                    self.position = at;
                }
                _ => {}
            }
        }
        // The process was killed while it printed these rows. They were delivered too.
        self.add(batch);
        cut_off
    }

    /// Adds a batch, which must follow the position in order.
    pub(crate) fn add(&mut self, batch: Vec<Seq>) {
        let (Some(first), Some(_)) = (batch.first(), batch.last()) else {
            return;
        };
        assert!(
            *first > self.position && batch.is_sorted_by(|a, b| a < b),
            "{}: behind {} it receives {batch:?}",
            self.name,
            self.position
        );
        self.batches.push((self.position, batch));
    }
}

/// Delivered rows by number. They must be the same for every subscriber.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<Seq, String>);

impl Seen {
    pub(crate) fn add(&mut self, seq: Seq, entry: &str, name: &str) {
        let known = self.0.entry(seq).or_insert_with(|| entry.to_owned());
        assert_eq!(
            known, entry,
            "{name}: row {seq} is not what others received"
        );
    }
}

/// The whole history.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) txns: Vec<Txn>,
    pub(crate) lives: Vec<Life>,
    pub(crate) seen: Seen,
}

impl Model {
    /// Adds the output of one writer.
    pub(crate) fn write(&mut self, writer: u64, lines: &[String]) {
        for line in lines {
            let mut words = line.splitn(3, ' ').skip(1);
            let (x, rest) = (words.next(), words.next().unwrap_or_default());
            let told = match line {
                l if l.starts_with("begin ") => {
                    self.txns.push(Txn {
                        writer,
                        rows: rest.split(',').map(str::to_owned).collect(),
                        told: Told::Unknown,
                    });
                    continue;
                }
                l if l.starts_with("ack ") => Told::Committed(rest.parse().expect("a number")),
                l if l.starts_with("none ") => Told::Nothing,
                other => panic!("a writer says {other} of {x:?}"),
            };
            // A writer has one transaction at a time.
            let last = self.txns.last_mut().expect("begun");
            last.told = told;
        }
    }

    /// Compares the delivered rows with the results of writers.
    pub(crate) fn judge(&self) {
        let committed = self.committed();
        self.nothing_else_was_delivered(&committed);
        let mut all: BTreeSet<Seq> = committed.keys().copied().collect();
        all.extend(self.seen.0.keys());
        for life in &self.lives {
            let mut delivered: BTreeSet<Seq> = BTreeSet::new();
            for (behind, batch) in &life.batches {
                let last = *batch.last().expect("a row");
                let wanted: Vec<Seq> = all.range(behind + 1..=last).copied().collect();
                assert_eq!(wanted, *batch, "{}: behind {behind}", life.name);
                delivered.extend(batch);
            }
            let end = if life.at_end { Seq::MAX } else { life.position };
            if life.began < end {
                let missed: Vec<&Seq> = all
                    .range(life.began + 1..=end)
                    .filter(|seq| !delivered.contains(seq))
                    .collect();
                assert!(missed.is_empty(), "{} missed {missed:?}", life.name);
            }
        }
    }

    /// Rows of acknowledged transactions, by number.
    fn committed(&self) -> BTreeMap<Seq, &str> {
        let mut rows = BTreeMap::new();
        let mut newest: BTreeMap<u64, Seq> = BTreeMap::new();
        for txn in &self.txns {
            let Told::Committed(last) = txn.told else {
                continue;
            };
            let first = last + 1 - txn.rows.len() as Seq;
            let before = newest.insert(txn.writer, last);
            assert!(before < Some(first), "one order: {txn:?} behind {before:?}");
            for (seq, row) in (first..).zip(&txn.rows) {
                let other = rows.insert(seq, row.as_str());
                assert_eq!(other, None, "row {seq} of two transactions");
            }
        }
        rows
    }

    /// Besides acknowledged transactions, only complete transactions of killed writers can have
    /// been delivered.
    fn nothing_else_was_delivered(&self, committed: &BTreeMap<Seq, &str>) {
        let mut others: BTreeMap<&str, Seq> = BTreeMap::new();
        for (seq, entry) in &self.seen.0 {
            match committed.get(seq) {
                Some(row) => assert_eq!(row, entry, "row {seq}"),
                None => {
                    let other = others.insert(entry, *seq);
                    assert_eq!(other, None, "{entry} was delivered as {seq}, too");
                }
            }
        }
        for txn in self.txns.iter().filter(|t| t.told == Told::Unknown) {
            let found: Vec<Seq> = txn
                .rows
                .iter()
                .filter_map(|row| others.remove(row.as_str()))
                .collect();
            let whole = found.len() == txn.rows.len() && found.windows(2).all(|w| w[1] == w[0] + 1);
            assert!(
                found.is_empty() || whole,
                "{txn:?} was delivered as {found:?}"
            );
        }
        assert!(others.is_empty(), "delivered and not committed: {others:?}");
    }

    /// Number of delivered rows, over all subscribers.
    pub(crate) fn delivered(&self) -> u64 {
        let batches = self.lives.iter().flat_map(|life| &life.batches);
        batches.map(|(_, rows)| rows.len() as u64).sum()
    }

    /// Number of rows acknowledged to writers.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.committed().len() as u64
    }
}
