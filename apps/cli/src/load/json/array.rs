//! A JSON array of objects, or objects one after another, read object by object.

use super::{Columns, Noted};
use crate::load::input::{Input, Text, unread};
use crate::load::spelled::Spelling;
use crate::load::{Bad, Column, Row, Source};
use serde::de::Deserialize;
use serde_json::value::RawValue;
use std::io::BufRead;

/// What comes before the next object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The beginning of the file.
    Anything,
    /// The opening bracket, so a closing one can come.
    Opening,
    /// Another object of the array.
    Comma,
    /// Another object of a file without an array.
    Nothing,
    /// The closing bracket.
    End,
}

pub(in crate::load) struct Array {
    text: Text,
    input: Input,
    columns: Columns,
    before: Before,
    /// The number of the object.
    at: u64,
}

impl Array {
    pub(in crate::load) fn new(input: Input, text: Text) -> Array {
        Array {
            text,
            input,
            columns: Columns::default(),
            before: Before::Anything,
            at: 0,
        }
    }

    /// The next byte that is not blank. It is not consumed.
    fn peek(&mut self) -> Result<Option<u8>, Bad> {
        loop {
            let bytes = self.text.fill_buf().map_err(|e| unread(&e))?;
            let Some(&first) = bytes.first() else {
                return Ok(None);
            };
            match first.is_ascii_whitespace() {
                true => self.text.consume(1),
                false => return Ok(Some(first)),
            }
        }
    }

    /// A problem after which reading cannot continue.
    fn broken(&self, problem: impl Into<String>) -> Bad {
        Bad {
            is_last: true,
            ..Bad::row(self.at, problem)
        }
    }

    /// The file ends within a row.
    fn cut(&self) -> Bad {
        Bad {
            at: Some(self.at),
            ..Bad::damaged("is cut off: the file ends within this row; get a whole copy")
        }
    }

    /// Passes over what is before the next object. Returns false at the end.
    fn has_next(&mut self) -> Result<bool, Bad> {
        let next = self.peek()?;
        if self.before == Before::Anything {
            self.before = match next {
                Some(b'[') => Before::Opening,
                _ => Before::Nothing,
            };
            if self.before == Before::Nothing {
                return Ok(next.is_some());
            }
            self.text.consume(1);
            return self.has_next();
        }
        self.at += 1;
        let (is_over, before) = match (self.before, next) {
            (Before::Opening, Some(b']')) | (Before::Comma, Some(b']')) => (true, Before::End),
            (Before::Opening, Some(_)) => return Ok(true),
            (Before::Comma, Some(b',')) => (false, Before::Comma),
            (Before::Nothing | Before::End, None) => return Ok(false),
            (Before::Nothing, Some(_)) => return Ok(true),
            (Before::End, Some(_)) => {
                return Err(self.broken("is behind the end of the array; remove it"));
            }
            (Before::Comma, Some(_)) => {
                return Err(self.broken("is not JSON: there is no comma before it"));
            }
            (_, None) => {
                return Err(Bad::damaged(
                    "is cut off: its array has no end; get a whole copy",
                ));
            }
            (Before::Anything, _) => return Ok(true),
        };
        self.text.consume(1);
        self.before = before;
        match is_over {
            true => self.has_next(),
            false => Ok(true),
        }
    }
}

impl Source for Array {
    fn unit(&self) -> &'static str {
        "row"
    }

    fn spelling(&self) -> Spelling {
        Spelling::Json
    }

    fn columns(&self) -> &[Column] {
        &self.columns.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        if !self.has_next()? {
            return Ok(None);
        }
        self.at = self.at.max(1);
        match self.peek()? {
            Some(b'{') => {}
            Some(_) => return Err(self.broken("is not a JSON object with columns and values")),
            None => return Err(self.cut()),
        }
        // An object ends with its own bracket, so nothing behind it is read.
        let mut noted = Noted::new(&mut self.text);
        let mut parser = serde_json::Deserializer::from_reader(&mut noted);
        let object = Box::<RawValue>::deserialize(&mut parser);
        let has_ended = noted.has_ended;
        let object = object.map_err(|e| match e.io_error_kind() {
            Some(_) => unread(&e.into()),
            None if has_ended => self.cut(),
            None => {
                // Its line would be that within the object.
                let said = e.to_string();
                let said = said.split(" at line ").next().unwrap_or_default();
                self.broken(format!("is not JSON: {said}"))
            }
        })?;
        if self.before == Before::Opening {
            self.before = Before::Comma;
        }
        self.columns.row(self.at, object.get().as_bytes()).map(Some)
    }

    fn bytes_read(&self) -> u64 {
        self.input.bytes_read()
    }
}
