//! A prefix of a bucket, or of a web server, as a place for a replica.

use super::CLIENT;
use densite_remote::{BucketUpload, Client, Got, Problem, Remote, RemoteOptions};
use densite_replica::{Bucket, Error, Listed, RemoteObject, Result, Stored, Upload};
use std::sync::Arc;

/// How many objects are read at once.
const AT_ONCE: usize = 4;

/// The objects under a URL of object storage.
///
/// # Errors
/// A sentence with the URL, without secrets.
pub fn bucket(url: &str) -> std::result::Result<Box<dyn Bucket>, String> {
    let client: &'static Client = CLIENT.get();
    let options = RemoteOptions::default();
    let bucket = densite_remote::Bucket::open(client, url, &options);
    let bucket = bucket.map_err(|e| e.to_string())?;
    Ok(Box::new(Prefix::over(client, bucket, url, options)))
}

/// The names of the folders right below a URL of object storage.
///
/// # Errors
/// A sentence with the URL, without secrets.
pub fn folders(url: &str) -> std::result::Result<Vec<String>, String> {
    let client: &'static Client = CLIENT.get();
    let bucket = densite_remote::Bucket::open(client, url, &RemoteOptions::default());
    let folders = bucket.and_then(|bucket| bucket.folders());
    folders.map_err(|e| e.to_string())
}

/// The objects under a URL.
pub(super) struct Prefix {
    client: &'static Client,
    bucket: densite_remote::Bucket,
    /// Ends with a slash.
    url: String,
    options: RemoteOptions,
}

impl Prefix {
    /// The objects under a URL of object storage or of a web server.
    ///
    /// # Errors
    /// [`Error::Bucket`].
    pub(super) fn to_read(url: &str, options: &RemoteOptions) -> Result<Prefix> {
        let client: &'static Client = CLIENT.get();
        let bucket = densite_remote::Bucket::to_read(client, url, options);
        let bucket = bucket.map_err(|e| failed(&e))?;
        Ok(Prefix::over(client, bucket, url, options.clone()))
    }

    fn over(
        client: &'static Client,
        bucket: densite_remote::Bucket,
        url: &str,
        options: RemoteOptions,
    ) -> Prefix {
        Prefix {
            client,
            bucket,
            url: format!("{}/", url.trim_end_matches('/')),
            options,
        }
    }
}

fn failed(e: &densite_remote::Error) -> Error {
    Error::Bucket(e.problem().to_string())
}

fn stored(got: Got) -> Stored {
    Stored {
        bytes: got.bytes,
        version: got.tag,
        len: got.len,
    }
}

impl Bucket for Prefix {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        let got = self.bucket.get(name).map_err(|e| failed(&e))?;
        Ok(got.map(stored))
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        let got = self.bucket.get_end(name, len).map_err(|e| failed(&e))?;
        Ok(got.map(stored))
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let got = self.bucket.get_range(name, offset, len);
        let got = got.map_err(|e| failed(&e))?;
        let got = got.ok_or_else(|| Error::Missing(name.to_owned()))?;
        match got.bytes.len() as u64 == len {
            true => Ok(got.bytes),
            false => Err(Error::Bucket(format!("the object {name} became shorter"))),
        }
    }

    fn stream(
        &self,
        name: &str,
        offset: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut sunk = Ok(());
        let read = self
            .bucket
            .stream(name, offset..offset + len, &mut |bytes| {
                sunk = sink(bytes);
                sunk.is_ok()
            });
        sunk?;
        read.map_err(|e| match e.problem() {
            Problem::NotFound => Error::Missing(name.to_owned()),
            _ => failed(&e),
        })
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.bucket.create(name, bytes).map_err(|e| failed(&e))
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.bucket
            .replace(name, bytes, version)
            .map_err(|e| failed(&e))
    }

    fn upload(&self, name: &str, about: u64) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(Uploading(self.bucket.upload(name, about))))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.bucket.remove(name).map_err(|e| failed(&e))
    }

    fn must_exist(&self) -> Result<()> {
        if self.has_lists() {
            self.bucket.must_exist().map_err(|e| failed(&e))?;
        }
        Ok(())
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn has_lists(&self) -> bool {
        self.bucket.has_lists()
    }

    fn object(&self, name: &str, len: u64, end: u64) -> Result<Option<Arc<dyn RemoteObject>>> {
        let url = format!("{}{name}", self.url);
        match self.client.open_end(&url, &self.options, len, end) {
            Ok(remote) => Ok(Some(Arc::new(ByRanges(remote)))),
            Err(e) if *e.problem() == Problem::NotFound => Ok(None),
            Err(e) => Err(failed(&e)),
        }
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        let found = self.bucket.list(prefix, after).map_err(|e| failed(&e))?;
        let listed = |(name, len)| Listed { name, len };
        Ok(found.into_iter().map(listed).collect())
    }
}

struct Uploading<'a>(BucketUpload<'a>);

impl Upload for Uploading<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write(bytes).map_err(|e| failed(&e))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.0.finish().map_err(|e| failed(&e))
    }
}

/// An object that is read by ranges.
struct ByRanges(Arc<Remote>);

impl RemoteObject for ByRanges {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buf, offset).map_err(|e| failed(&e))
    }

    fn len(&self) -> u64 {
        self.0.len()
    }
}
