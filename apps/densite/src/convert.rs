//! Converting a database from plain to compressed and back, and publishing it.

use crate::register::api;
use crate::{ConvertReport, Progress, Result, Silent, setting};
use densite_tools::{ConvertOptions as Convert, StoreOptions};
use std::path::Path;
use std::time::Duration;

/// Writes the plain SQLite database `src` to the new Densite file `dst`. `src` does not change.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (plain, small) = (dir.path().join("app.db"), dir.path().join("small.db"));
/// # rusqlite::Connection::open(&plain)?.execute_batch("CREATE TABLE t(a)")?;
/// let report = densite::compress(&plain, &small)?;
/// println!("{} bytes became {}", report.source_bytes, report.destination_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); then `dst` was not created.
pub fn compress(src: impl AsRef<Path>, dst: impl AsRef<Path>) -> Result<ConvertReport> {
    ConvertOptions::new().compress(src, dst, &mut Silent)
}

/// Turns the plain SQLite database at `path` into a Densite file. The file is replaced after its
/// copy is verified.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// densite::compress_in_place(&path)?;
/// assert_eq!(densite::info(&path)?.form, densite::Form::Compressed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); then the file is unchanged.
pub fn compress_in_place(path: impl AsRef<Path>) -> Result<ConvertReport> {
    ConvertOptions::new().compress_in_place(path, &mut Silent)
}

/// Writes the Densite file `src` to the new plain SQLite database `dst`. `src` does not change.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (small, plain) = (dir.path().join("small.db"), dir.path().join("plain.db"));
/// # densite::open(&small)?.execute_batch("CREATE TABLE t(a)")?;
/// densite::decompress(&small, &plain)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); then `dst` was not created.
pub fn decompress(src: impl AsRef<Path>, dst: impl AsRef<Path>) -> Result<ConvertReport> {
    ConvertOptions::new().decompress(src, dst, &mut Silent)
}

/// Turns the Densite file at `path` into a plain SQLite database. The file is replaced after its
/// copy is verified.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # densite::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// densite::decompress_in_place(&path)?;
/// assert_eq!(densite::info(&path)?.form, densite::Form::Plain);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); then the file is unchanged.
pub fn decompress_in_place(path: impl AsRef<Path>) -> Result<ConvertReport> {
    ConvertOptions::new().decompress_in_place(path, &mut Silent)
}

/// Writes a copy of the database `src`, compressed or plain, to `dst`, a file or a URL
/// `s3://BUCKET/KEY`. It needs few requests when it is read from a web server or object storage. A
/// database at `dst` is replaced atomically.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (app, published) = (dir.path().join("app.db"), dir.path().join("published.db"));
/// # densite::open(&app)?.execute_batch("CREATE TABLE t(a)")?;
/// densite::publish(&app, &published)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); then `dst` is unchanged.
pub fn publish(src: impl AsRef<Path>, dst: impl AsRef<Path>) -> Result<ConvertReport> {
    ConvertOptions::new().publish(src, dst, &mut Silent)
}

/// How to convert.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (plain, archive) = (dir.path().join("app.db"), dir.path().join("archive.db"));
/// # rusqlite::Connection::open(&plain)?.execute_batch("CREATE TABLE t(a)")?;
/// densite::ConvertOptions::new()
///     .archive(true)
///     .threads(2)
///     .compress(&plain, &archive, &mut densite::Silent)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "options do nothing until a conversion is called"]
pub struct ConvertOptions {
    level: Option<i32>,
    threads: Option<usize>,
    page_size: Option<u32>,
    archive: bool,
    known_program: bool,
    timeout: Option<Duration>,
}

/// `compress` or `decompress` of the crate `densite-tools`.
type Verb = fn(
    densite_tools::Api,
    &Path,
    Option<&Path>,
    &Convert,
    &mut dyn Progress,
) -> densite_tools::Result<ConvertReport>;

impl ConvertOptions {
    /// The defaults.
    pub fn new() -> ConvertOptions {
        ConvertOptions::default()
    }

    /// The zstd level of a Densite file's pages, -7 to 22. The default is 3.
    pub fn level(mut self, level: i32) -> ConvertOptions {
        self.level = Some(level);
        self
    }

    /// The number of background threads, 0 to 256. The default is one less than the cores, at least
    /// 1.
    pub fn threads(mut self, threads: usize) -> ConvertOptions {
        self.threads = Some(threads);
        self
    }

    /// The page size of the compressed database in bytes, a power of two from 512 to 65536. The
    /// default is the page size of the plain database.
    pub fn page_size(mut self, bytes: u32) -> ConvertOptions {
        self.page_size = Some(bytes);
        self
    }

    /// Whether a small file matters more than fast reads. The default is no.
    pub fn archive(mut self, archive: bool) -> ConvertOptions {
        self.archive = archive;
        self
    }

    /// Whether [`compress_in_place`](fn@compress_in_place) also compresses the database of a program
    /// that opens it with a SQLite of its own and could not open it any more. The default is no.
    pub fn known_program(mut self, known_program: bool) -> ConvertOptions {
        self.known_program = known_program;
        self
    }

    /// How long to wait for another connection's lock. The default is 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> ConvertOptions {
        self.timeout = Some(timeout);
        self
    }

    /// As [`compress`](fn@compress), with these options.
    ///
    /// # Errors
    /// The same; [`Error::Setting`](crate::Error::Setting) if an option is out of range.
    pub fn compress(
        &self,
        src: impl AsRef<Path>,
        dst: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<ConvertReport> {
        let (src, dst) = (src.as_ref(), Some(dst.as_ref()));
        self.run(densite_tools::compress, src, dst, progress)
    }

    /// As [`compress_in_place`](fn@compress_in_place), with these options.
    ///
    /// # Errors
    /// As [`ConvertOptions::compress`].
    pub fn compress_in_place(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<ConvertReport> {
        self.run(densite_tools::compress, path.as_ref(), None, progress)
    }

    /// As [`publish`](fn@publish), with these options.
    ///
    /// # Errors
    /// As [`ConvertOptions::compress`]; also with `page_size` or `archive`.
    pub fn publish(
        &self,
        src: impl AsRef<Path>,
        dst: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<ConvertReport> {
        let (src, dst, options) = (src.as_ref(), dst.as_ref(), self.checked()?);
        Ok(densite_tools::publish(
            api()?,
            src,
            dst,
            &options,
            progress,
        )?)
    }

    /// As [`decompress`](fn@decompress), with these options.
    ///
    /// # Errors
    /// As [`ConvertOptions::compress`].
    pub fn decompress(
        &self,
        src: impl AsRef<Path>,
        dst: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<ConvertReport> {
        let (src, dst) = (src.as_ref(), Some(dst.as_ref()));
        self.run(densite_tools::decompress, src, dst, progress)
    }

    /// As [`decompress_in_place`](fn@decompress_in_place), with these options.
    ///
    /// # Errors
    /// As [`ConvertOptions::compress`].
    pub fn decompress_in_place(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<ConvertReport> {
        self.run(densite_tools::decompress, path.as_ref(), None, progress)
    }

    fn run(
        &self,
        verb: Verb,
        src: &Path,
        dst: Option<&Path>,
        progress: &mut dyn Progress,
    ) -> Result<ConvertReport> {
        Ok(verb(api()?, src, dst, &self.checked()?, progress)?)
    }

    fn checked(&self) -> Result<Convert> {
        let defaults = Convert::default();
        Ok(Convert {
            store: store_options(self.level, self.threads)?,
            archive: self.archive,
            known_program: self.known_program,
            page_size: self.page_size.map(setting::page_size).transpose()?,
            wait: self.timeout.unwrap_or(defaults.wait),
            ..defaults
        })
    }
}

/// The store's settings, with its defaults for those that are not given.
pub(crate) fn store_options(level: Option<i32>, threads: Option<usize>) -> Result<StoreOptions> {
    let defaults = StoreOptions::default();
    Ok(StoreOptions {
        level: level.map_or(Ok(defaults.level), setting::level)?,
        threads: threads.map_or(Ok(defaults.threads), setting::threads)?,
        ..defaults
    })
}
