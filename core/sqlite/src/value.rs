//! Values: SQLite's five types.

use crate::api::Api;
use crate::ffi::{self, RawValue};
use std::ffi::c_void;

/// An owned value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(String),
    /// Text that is not valid UTF-8, which SQLite accepts.
    RawText(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A value in SQLite's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text, as bytes: SQLite does not promise valid UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

impl Value {
    /// The same, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Integer(n) => ValueRef::Integer(*n),
            Value::Real(x) => ValueRef::Real(*x),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::RawText(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl<'a> ValueRef<'a> {
    /// The value for a message: text quoted and shortened, blobs as their length.
    pub fn shown(self) -> String {
        const LONG: usize = 40;
        match self {
            ValueRef::Null => "NULL".to_owned(),
            ValueRef::Integer(n) => n.to_string(),
            ValueRef::Real(x) => format!("{x:?}"),
            ValueRef::Text(text) => {
                let text = String::from_utf8_lossy(text);
                let start: String = text.chars().take(LONG).collect();
                let more = if start.len() < text.len() {
                    " and more"
                } else {
                    ""
                };
                format!("{start:?}{more}")
            }
            ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
        }
    }

    /// The text, if it is valid UTF-8 text.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            ValueRef::Integer(n) => Some(n),
            _ => None,
        }
    }

    /// The bytes of text or a blob.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A copy with the same bytes.
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(n) => Value::Integer(n),
            ValueRef::Real(x) => Value::Real(x),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => Value::RawText(bytes.to_vec()),
            },
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }

    /// Reads a function's argument.
    ///
    /// # Safety
    /// `value` is a live protected `sqlite3_value` that lives unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(api: Api, value: *mut RawValue) -> ValueRef<'a> {
        let t = api.raw();
        // SAFETY: the caller guarantees a live value. The pointer is read before the length, and
        // the memory stays until the value changes.
        unsafe {
            match (t.value_type)(value) {
                ffi::INTEGER => ValueRef::Integer((t.value_int64)(value)),
                ffi::FLOAT => ValueRef::Real((t.value_double)(value)),
                ffi::TEXT => {
                    let ptr = (t.value_text)(value);
                    ValueRef::Text(bytes(ptr.cast(), (t.value_bytes)(value)))
                }
                ffi::BLOB => {
                    let ptr = (t.value_blob)(value);
                    ValueRef::Blob(bytes(ptr, (t.value_bytes)(value)))
                }
                _ => ValueRef::Null,
            }
        }
    }
}

impl<'a> ValueRef<'a> {
    /// As [`ValueRef::from_raw`], for text that SQLite has in UTF-8: it copies text to terminate it,
    /// and this does not.
    ///
    /// # Safety
    /// As [`ValueRef::from_raw`]; the value's text is in UTF-8.
    #[inline]
    pub(crate) unsafe fn from_raw_utf8(api: Api, value: *mut RawValue) -> ValueRef<'a> {
        let t = api.raw();
        // SAFETY: as in `from_raw`. The bytes of a text as a blob are those of its encoding.
        unsafe {
            match (t.value_type)(value) {
                ffi::TEXT => {
                    let ptr = (t.value_blob)(value);
                    ValueRef::Text(bytes(ptr, (t.value_bytes)(value)))
                }
                _ => ValueRef::from_raw(api, value),
            }
        }
    }
}

/// The bytes as a slice; empty for null.
///
/// # Safety
/// `ptr` is null or points to `len` bytes that live unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(ptr: *const c_void, len: i32) -> &'a [u8] {
    match usize::try_from(len) {
        // SAFETY: the caller guarantees it.
        Ok(len) if len > 0 && !ptr.is_null() => unsafe {
            std::slice::from_raw_parts(ptr.cast::<u8>(), len)
        },
        _ => &[],
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Integer(n)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Value::Real(x)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_string())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value::Blob(bytes)
    }
}
