//! What zstd alone makes of documents: each document alone, with one shared dictionary. The stored
//! size of a database of documents is compared with this, because it has to be readable document by
//! document, too.

use std::path::Path;

use rusqlite::types::ValueRef;

use crate::connect::Vfs;
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Failure, Result};
use crate::stored;

/// The size of zstd's usual dictionary, in bytes.
const DICTIONARY: usize = 110 << 10;
/// One document in so many is a sample to train on, of at most so many bytes.
const SAMPLES: (usize, usize) = (4, 128 << 10);
/// Levels of zstd for comparison with the default settings and with an archive.
const LEVELS: [(i32, &str); 2] = [(3, ""), (19, ", archive")];
/// The largest stored size of the database with all of its b-trees, divided by zstd's result.
const MOST: f64 = 1.02;

/// The stored sizes of a database with default settings and as an archive, beside the sum of zstd's
/// frames for the text of each `document`.
pub(super) fn figures(plain: &Path, stored: [&Path; 2]) -> Result<Vec<Figure>> {
    let con = Vfs::Plain.open(plain)?;
    let mut documents: Vec<Vec<u8>> = Vec::new();
    let mut statement = con.prepare("SELECT text FROM document ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match row.get_ref(0)? {
            ValueRef::Text(text) | ValueRef::Blob(text) => documents.push(text.to_vec()),
            other => {
                let what = format!("a document that is {other:?}");
                return Err(Failure(format!("{}: {what}", plain.display())));
            }
        }
    }
    let (every, most) = SAMPLES;
    let samples = documents.iter().step_by(every);
    let samples: Vec<&[u8]> = samples.map(|d| &d[..d.len().min(most)]).collect();
    let dictionary = zstd::dict::from_samples(&samples, DICTIONARY).about("train on", plain)?;
    let mut figures = Vec::new();
    for ((level, what), stored) in LEVELS.into_iter().zip(stored) {
        let compressor = zstd::bulk::Compressor::with_dictionary(level, &dictionary);
        let mut compressor = compressor.about("prepare zstd for", plain)?;
        let mut bytes = dictionary.len();
        for document in &documents {
            bytes += compressor
                .compress(document)
                .about("compress", plain)?
                .len();
        }
        figures.push(Figure::new(
            &format!(
                "stored size{what}, MiB; base: each text for itself by zstd -{level} with a dictionary of 110 KiB, without tables"
            ),
            Compare::Ratio,
            bytes as f64 / f64::from(1 << 20),
            stored::allocated(stored)? as f64 / f64::from(1 << 20),
            Some(MOST),
        ));
    }
    Ok(figures)
}
