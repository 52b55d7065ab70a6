//! Executes the instructions of a pickle.

use super::input::Input;
use super::operand;
use super::value::{CLASSES, Class, Dict, Value};
use super::{LEN_MAX, PickleError, TextHash};
use std::io::BufRead;

/// The largest number of values on the stack. Python and Chroma both end a batch of dictionary
/// entries after a thousand.
const STACK_MAX: usize = 1 << 16;
/// The largest number of dictionaries; Chroma's pickles have four.
const DICTS_MAX: usize = 16;
/// Bytes of the file that are needed for each value in the memo. Chroma's pickles have 14 bytes for
/// each record, and one memo value for each record.
const BYTES_PER_MEMO: u64 = 8;
/// Memo values that are allowed in any file: names of classes and fields.
const MEMO_FREE: u64 = 64;
/// Bytes of the file that are needed for each entry of a dictionary.
const BYTES_PER_ENTRY: u64 = 4;

struct Machine<R> {
    input: Input<R>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Value>,
    memo_max: u64,
    dicts: Vec<Dict>,
    entries: u64,
    max_seq_id: TextHash,
    id_to_label: TextHash,
}

/// Runs the pickle to its end. Returns `max_seq_id` and the keys of `id_to_label`.
pub(super) fn run<R: BufRead>(
    input: Input<R>,
) -> Result<(Option<i64>, Vec<TextHash>), PickleError> {
    if input.len() > LEN_MAX {
        return Err(input.error(format!(
            "its {} bytes are more than the {LEN_MAX} that are read",
            input.len()
        )));
    }
    let mut machine = Machine {
        memo_max: input.len() / BYTES_PER_MEMO + MEMO_FREE,
        input,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        dicts: Vec::new(),
        entries: 0,
        max_seq_id: TextHash::of(b"max_seq_id"),
        id_to_label: TextHash::of(b"id_to_label"),
    };
    while machine.step()? {}
    machine.result()
}

impl<R: BufRead> Machine<R> {
    /// Executes one instruction. Returns false after the last one.
    fn step(&mut self) -> Result<bool, PickleError> {
        match self.input.instruction()? {
            // PROTO
            0x80 => {
                let [protocol] = self.input.bytes()?;
                if protocol > 5 {
                    return Err(self
                        .input
                        .error(format!("protocol {protocol} is not known")));
                }
            }
            // FRAME: only a hint how much to read at once.
            0x95 => drop(self.input.bytes::<8>()?),
            b'.' => return Ok(false),
            b'(' => {
                if self.marks.len() >= DICTS_MAX {
                    return Err(self.input.error("too many marks"));
                }
                self.marks.push(self.stack.len());
            }
            b'N' => self.push(Value::None)?,
            // NEWTRUE, NEWFALSE
            0x88 | 0x89 => self.push(Value::Bool)?,
            code @ (b'I' | b'L' | b'J' | b'K' | b'M' | 0x8a | 0x8b) => {
                let number = operand::number(&mut self.input, code)?;
                self.push(Value::Int(number))?;
            }
            code @ (b'V' | b'X' | 0x8c | 0x8d) => {
                let text = operand::text(&mut self.input, code)?;
                self.push(Value::Text(text))?;
            }
            b'}' => self.new_dict()?,
            // DICT: takes the values since the mark, in pairs.
            b'd' => {
                let items = self.since_mark()?;
                self.new_dict()?;
                self.set(&items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set(&items)?;
            }
            b')' => self.push(Value::EmptyTuple)?,
            b't' => {
                let items = self.since_mark()?;
                let tuple = match items.as_slice() {
                    [] => Value::EmptyTuple,
                    [
                        Value::Class(Class::PersistentData),
                        Value::Class(Class::Object),
                        Value::None,
                    ] => Value::Arguments,
                    _ => {
                        return Err(self
                            .input
                            .error("a tuple that Chroma's pickles do not have"));
                    }
                };
                self.push(tuple)?;
            }
            b'c' => {
                let module = self.input.line()?.to_vec();
                let name = self.input.line()?.to_vec();
                self.class(&module, &name)?;
            }
            // STACK_GLOBAL
            0x93 => {
                let name = self.pop()?;
                let module = self.pop()?;
                let known = CLASSES.iter().find(|(m, n, _)| {
                    module == Value::Text(TextHash::of(m)) && name == Value::Text(TextHash::of(n))
                });
                match known {
                    Some((_, _, class)) => self.push(Value::Class(*class))?,
                    None => return Err(self.input.error("a class that is not Chroma's")),
                }
            }
            // NEWOBJ and REDUCE create an object of the one known class. Nothing is called.
            code @ (0x81 | b'R') => {
                let arguments = self.pop()?;
                let called = self.pop()?;
                match (code, called, arguments) {
                    (0x81, Value::Class(Class::PersistentData), Value::EmptyTuple)
                    | (b'R', Value::Class(Class::Reconstructor), Value::Arguments) => {
                        self.push(Value::Object(None))?;
                    }
                    _ => return Err(self.input.error("a call that Chroma's pickles do not have")),
                }
            }
            b'b' => match (self.pop()?, self.pop()?) {
                (Value::Dict(dict), Value::Object(None)) => self.push(Value::Object(Some(dict)))?,
                _ => {
                    return Err(self
                        .input
                        .error("an object state that Chroma's pickles do not have"));
                }
            },
            code @ (0x94 | b'p' | b'q' | b'r') => self.put(code)?,
            code @ (b'g' | b'h' | b'j') => self.get(code)?,
            code => {
                return Err(self.input.error(format!(
                    "Chroma's pickles do not have the instruction 0x{code:02x}"
                )));
            }
        }
        Ok(true)
    }

    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        if self.stack.len() >= STACK_MAX {
            return Err(self.input.error("its stack is too large"));
        }
        self.stack.push(value);
        Ok(())
    }

    /// Removes and returns the topmost value, which must lie above the last mark.
    fn pop(&mut self) -> Result<Value, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.input.error("its stack is empty"));
        }
        self.stack
            .pop()
            .ok_or_else(|| self.input.error("its stack is empty"))
    }

    /// Removes the last mark and returns all values above it.
    fn since_mark(&mut self) -> Result<Vec<Value>, PickleError> {
        match self.marks.pop() {
            // Values below a mark are never removed, so the mark is within the stack.
            Some(mark) => Ok(self.stack.split_off(mark.min(self.stack.len()))),
            None => Err(self.input.error("a mark is missing")),
        }
    }

    fn class(&mut self, module: &[u8], name: &[u8]) -> Result<(), PickleError> {
        match CLASSES.iter().find(|(m, n, _)| *m == module && *n == name) {
            Some((_, _, class)) => self.push(Value::Class(*class)),
            None => Err(self.input.error(format!(
                "class {}.{} is not Chroma's",
                module.escape_ascii(),
                name.escape_ascii()
            ))),
        }
    }

    fn new_dict(&mut self) -> Result<(), PickleError> {
        if self.dicts.len() >= DICTS_MAX {
            return Err(self.input.error("it has more dictionaries than Chroma's"));
        }
        self.push(Value::Dict(self.dicts.len()))?;
        self.dicts.push(Dict::default());
        Ok(())
    }

    /// Adds alternating keys and values to the dictionary on top of the stack.
    fn set(&mut self, items: &[Value]) -> Result<(), PickleError> {
        let top = match self.stack.last() {
            Some(Value::Dict(index)) => self.dicts.get_mut(*index),
            _ => None,
        };
        let Some(dict) = top else {
            return Err(self.input.error("entries without a dictionary"));
        };
        let mut pairs = items.chunks_exact(2);
        for pair in &mut pairs {
            let [key, value] = pair else { continue };
            match key {
                Value::Text(key) => {
                    self.entries += 1;
                    if *key == self.max_seq_id {
                        dict.max_seq_id = Some(*value);
                    } else if *key == self.id_to_label {
                        dict.id_to_label = Some(*value);
                    }
                    dict.keys.push(*key);
                }
                Value::Int(_) => {}
                _ => return Err(self.input.error("a key that is neither text nor number")),
            }
        }
        if !pairs.remainder().is_empty() {
            return Err(self.input.error("a key without a value"));
        }
        if self.entries > self.input.len() / BYTES_PER_ENTRY {
            return Err(self.input.error("more entries than its length can hold"));
        }
        Ok(())
    }

    /// Stores the topmost value in the memo. Python and Chroma both number from 0 without a gap.
    fn put(&mut self, code: u8) -> Result<(), PickleError> {
        let at = match code {
            0x94 => Some(self.memo.len() as u64),
            _ => operand::memo_index(&mut self.input, code)?,
        };
        let Some(value) = self.stack.last().copied() else {
            return Err(self.input.error("its stack is empty"));
        };
        if at != Some(self.memo.len() as u64) {
            return Err(self.input.error("its memo has a gap"));
        }
        if self.memo.len() as u64 >= self.memo_max {
            return Err(self.input.error("its memo is too large"));
        }
        self.memo.push(value);
        Ok(())
    }

    fn get(&mut self, code: u8) -> Result<(), PickleError> {
        let found = operand::memo_index(&mut self.input, code)?
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| self.memo.get(at))
            .copied();
        match found {
            Some(value) => self.push(value),
            None => Err(self.input.error("it reads a value that is not in its memo")),
        }
    }

    fn result(mut self) -> Result<(Option<i64>, Vec<TextHash>), PickleError> {
        if !self.input.is_at_end()? {
            return Err(self.input.error("bytes follow its end"));
        }
        let top = match self.stack.as_slice() {
            [Value::Dict(dict) | Value::Object(Some(dict))] if self.marks.is_empty() => {
                self.dicts.get(*dict)
            }
            _ => None,
        };
        let Some(top) = top else {
            return Err(self.input.error("it is not the pickle of an index"));
        };
        let max_seq_id = match top.max_seq_id {
            Some(Value::Int(n)) => Some(n),
            None | Some(Value::None) => None,
            Some(_) => return Err(self.input.error("its max_seq_id is not a number")),
        };
        let Some(Value::Dict(ids)) = top.id_to_label else {
            return Err(self.input.error("it has no id_to_label"));
        };
        let ids = self.dicts.get_mut(ids).map(|d| std::mem::take(&mut d.keys));
        Ok((max_seq_id, ids.unwrap_or_default()))
    }
}
