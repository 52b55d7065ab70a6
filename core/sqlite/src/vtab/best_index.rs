//! xBestIndex: SQLite's questions before a scan, and the answers.

use crate::Code;
use crate::api::Api;
use crate::ffi::IndexInfo;
use std::ffi::{CStr, c_int};

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`; also `IN`, once for each value.
    Equal,
    /// `>`
    Greater,
    /// `<=`
    LessOrEqual,
    /// `<`
    Less,
    /// `>=`
    GreaterOrEqual,
    /// `LIMIT`; the column has no meaning.
    Limit,
    /// `OFFSET`; the column has no meaning.
    Offset,
    /// Any other operator.
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
    /// The column; `None` for the row id.
    pub column: Option<usize>,
    /// The comparison operator.
    pub operator: Operator,
    /// Whether the other side is known in this order of tables.
    pub usable: bool,
}

/// The plan of a scan.
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

    /// The conditions of the statement.
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

    /// Asks for the value of the condition at this place among [`Plan::constraints`]. The cursor
    /// gets it after those asked for before. `omit`: the cursor returns only matching rows, so
    /// SQLite need not check the condition.
    pub fn ask(&mut self, place: usize, omit: bool) {
        if place < usize::try_from(self.info.nConstraint).unwrap_or(0) {
            self.asked += 1;
            // SAFETY: within the array, which has `nConstraint` entries.
            let usage = unsafe { &mut *self.info.aConstraintUsage.add(place) };
            usage.argvIndex = self.asked;
            usage.omit = u8::from(omit);
        }
    }

    /// The collation of the condition at this place; "BINARY" if SQLite does not report one.
    pub fn collation(&mut self, place: usize) -> String {
        let n = usize::try_from(self.info.nConstraint).unwrap_or(0);
        let place = c_int::try_from(place.min(n.saturating_sub(1))).unwrap_or(0);
        if n == 0 {
            return "BINARY".to_owned();
        }
        // SAFETY: the plan of the running call and a place within it. The name is static or lives
        // as long as the call.
        let name = unsafe { (self.api.raw().vtab_collation)(self.info, place) };
        if name.is_null() {
            return "BINARY".to_owned();
        }
        // SAFETY: not null, so a terminated string.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    /// The columns of ORDER BY (or GROUP BY), `None` for the row id, and whether each descends.
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

    /// Promises that the cursor returns rows in that order.
    pub fn is_ordered(&mut self) {
        self.info.orderByConsumed = 1;
    }

    /// Sets the number and text that the cursor gets.
    pub fn choose(&mut self, number: i32, text: &str) {
        self.info.idxNum = number;
        self.info.idxStr = self.api.string(text);
        self.info.needToFreeIdxStr = 1;
    }

    /// Sets the estimated cost, in disk accesses as SQLite counts them for its own tables, and the
    /// estimated number of rows.
    pub fn cost(&mut self, cost: f64, rows: i64) {
        self.info.estimatedCost = cost;
        self.info.estimatedRows = rows;
    }

    pub(super) fn outcome(possible: bool) -> Code {
        if possible { Code::OK } else { Code::CONSTRAINT }
    }
}
