//! Reads the whole log and reports what cannot be read.

use crate::end_word::find_whole_word;
use crate::files::{Files, LogDir, damaged};
use crate::format::SEGMENT_MAX;
use crate::reader::Place;
use crate::scan::Peek;
use crate::{Error, LogId, Result, recover};

/// One place that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file in the log's directory.
    pub segment: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// What is wrong.
    pub problem: String,
}

/// The contents of the log, and its damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of segments read.
    pub segments: u64,
    /// Number of batches in them.
    pub batches: u64,
    /// Number of rows in them, including those that were rolled back.
    pub rows: u64,
    /// Bytes of whole transactions behind the end that is known to be synced. A process was killed,
    /// or is appending.
    pub unconfirmed_bytes: u64,
    /// Places that cannot be read; empty if the log is intact. Each segment reports only its first
    /// place: behind it, records cannot be told from bytes that were never part of the log.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    fn note(&mut self, e: Error) -> Result<()> {
        match e {
            Error::Damaged {
                segment,
                offset,
                problem,
            } => {
                self.problems.push(Problem {
                    segment,
                    offset,
                    problem,
                });
                Ok(())
            }
            e => Err(e),
        }
    }
}

/// Reads every record of the log in a directory, decodes its rows and follows the chain of checks.
/// Changes nothing. The log can be in use.
///
/// # Errors
/// `Missing`, `OtherLog`, `NewerFormat`, `Io`. Damage is in the report.
pub fn check(dir: LogDir, id: LogId) -> Result<CheckReport> {
    let files = Files { dir, id };
    let mut report = CheckReport::default();
    let numbers = match recover::segments(&files) {
        Ok(numbers) => numbers,
        Err(e) => {
            report.note(e)?;
            files.numbers(0)?
        }
    };
    let tail = numbers.last().copied().unwrap_or_default();
    for number in numbers {
        // A segment that was pruned since it was listed is not a problem.
        let gone = |files: &Files| -> Result<bool> {
            match files.load_state() {
                Ok(state) => Ok(state.is_some_and(|s| s.first_segment > number)),
                // Already reported. A state that cannot be read does not say what was pruned.
                Err(Error::Damaged { .. }) => Ok(false),
                Err(e) => Err(e),
            }
        };
        if let Err(e) = segment(&files, number, number == tail, &mut report)
            && !gone(&files)?
        {
            report.note(e)?;
        }
    }
    Ok(report)
}

fn segment(files: &Files, number: u64, is_tail: bool, report: &mut CheckReport) -> Result<()> {
    let segment = files.held(number)?;
    let segment = segment.ok_or_else(|| damaged(number, 0, "the segment is missing"))?;
    report.segments += 1;
    let len = segment.file.len()?.min(SEGMENT_MAX);
    // As readers do: without a valid word, the end is where the records end.
    let word = match find_whole_word(files)? {
        Some(word) => word,
        None => recover::end_as_read(files)?,
    };
    let sealed = match is_tail {
        true => None,
        false => Some(files.sealed_end(number)?),
    };
    // Up to here every record must be valid.
    let known = match sealed {
        Some((end, _)) => end,
        None if word.segment == number => word.off,
        None => 0,
    };
    let mut place = Place::new(segment);
    let mut unconfirmed = 0;
    loop {
        let at = place.walk.at();
        let limit = if sealed.is_some() { known } else { len };
        if sealed.is_some() && at >= limit {
            break;
        }
        let header = match place.walk.peek(limit)? {
            Peek::Record(header) => header,
            Peek::Nothing(problem) if at < known || place.walk.is_damaged()? => {
                return Err(damaged(number, at, problem));
            }
            Peek::Nothing(_) => break,
        };
        place.read(&header, 0, &[])?;
        if at >= known {
            unconfirmed += header.padded_len();
            if header.ends_transaction() {
                report.unconfirmed_bytes += std::mem::take(&mut unconfirmed);
            }
        } else if header.count > 0 {
            report.batches += 1;
            report.rows += u64::from(header.count);
        }
        place.pass(&header);
    }
    match sealed {
        Some((end, check)) if place.walk.at() != end || place.walk.prev() != check => Err(damaged(
            number,
            end,
            "the next segment does not follow this one",
        )),
        _ => Ok(()),
    }
}
