//! xBestIndex: what SQLite would like to know before a scan, and what it is told.

use crate::Code;
use crate::api::Api;
use crate::ffi::IndexInfo;
use std::ffi::{CStr, c_int};

/// A comparison. What is not listed here is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`, and `IN`, value by value.
    Equal,
    /// `>`
    Greater,
    /// `<=`
    LessOrEqual,
    /// `<`
    Less,
    /// `>=`
    GreaterOrEqual,
    /// `LIMIT`; the column means nothing.
    Limit,
    /// `OFFSET`; the column means nothing.
    Offset,
    /// Another one.
    Other(u8),
}

impl Operator {
    fn of(op: u8) -> Operator {
        match op {
            2 => Operator::Equal,
            4 => Operator::Greater,
            8 => Operator::LessOrEqual,
            16 => Operator::Less,
            32 => Operator::GreaterOrEqual,
            73 => Operator::Limit,
            74 => Operator::Offset,
            other => Operator::Other(other),
        }
    }
}

/// A condition of the statement on one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constraint {
    /// The column; `None` is the row id.
    pub column: Option<usize>,
    /// How it is compared.
    pub operator: Operator,
    /// Whether the other side is known in this order of tables.
    pub usable: bool,
}

/// A scan that is being planned.
pub struct Plan<'a> {
    api: Api,
    info: &'a mut IndexInfo,
    asked: c_int,
}

impl<'a> Plan<'a> {
    pub(super) fn new(api: Api, info: &'a mut IndexInfo) -> Plan<'a> {
        Plan {
            api,
            info,
            asked: 0,
        }
    }

    /// The conditions there are.
    pub fn constraints(&self) -> Vec<Constraint> {
        let n = usize::try_from(self.info.nConstraint).unwrap_or(0);
        (0..n)
            .map(|i| {
                // SAFETY: SQLite's array has `nConstraint` entries.
                let c = unsafe { &*self.info.aConstraint.add(i) };
                Constraint {
                    column: usize::try_from(c.iColumn).ok(),
                    operator: Operator::of(c.op),
                    usable: c.usable != 0,
                }
            })
            .collect()
    }

    /// Asks for the value of the condition at this place among [`Plan::constraints`]: the cursor gets it, after those asked for before. `omit`: the
    /// cursor answers no other rows, so that SQLite need not look again.
    pub fn ask(&mut self, place: usize, omit: bool) {
        if place < usize::try_from(self.info.nConstraint).unwrap_or(0) {
            self.asked += 1;
            // SAFETY: within the array, which has `nConstraint` entries.
            let usage = unsafe { &mut *self.info.aConstraintUsage.add(place) };
            usage.argvIndex = self.asked;
            usage.omit = u8::from(omit);
        }
    }

    /// The collation by which the condition at this place compares; "BINARY" where SQLite does not say.
    pub fn collation(&mut self, place: usize) -> String {
        let n = usize::try_from(self.info.nConstraint).unwrap_or(0);
        let place = c_int::try_from(place.min(n.saturating_sub(1))).unwrap_or(0);
        if n == 0 {
            return "BINARY".to_owned();
        }
        // SAFETY: the plan of the running call, and a place within it; the name is static or lives as long as the call.
        let name = unsafe { (self.api.raw().vtab_collation)(self.info, place) };
        if name.is_null() {
            return "BINARY".to_owned();
        }
        // SAFETY: not null, so a terminated string.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    /// The columns that ORDER BY (or GROUP BY) names, `None` for the row id, and whether they descend.
    pub fn order(&self) -> Vec<(Option<usize>, bool)> {
        let n = usize::try_from(self.info.nOrderBy).unwrap_or(0);
        (0..n)
            .map(|i| {
                // SAFETY: SQLite's array has `nOrderBy` entries.
                let o = unsafe { &*self.info.aOrderBy.add(i) };
                (usize::try_from(o.iColumn).ok(), o.desc != 0)
            })
            .collect()
    }

    /// The cursor answers rows in that order.
    pub fn is_ordered(&mut self) {
        self.info.orderByConsumed = 1;
    }

    /// What the cursor is to be told.
    pub fn choose(&mut self, number: i32, text: &str) {
        self.info.idxNum = number;
        self.info.idxStr = self.api.string(text);
        self.info.needToFreeIdxStr = 1;
    }

    /// What the scan costs, about as many disk accesses as SQLite would make for a table of its own, and the rows it answers.
    pub fn cost(&mut self, cost: f64, rows: i64) {
        self.info.estimatedCost = cost;
        self.info.estimatedRows = rows;
    }

    pub(super) fn outcome(possible: bool) -> Code {
        if possible { Code::OK } else { Code::CONSTRAINT }
    }
}
