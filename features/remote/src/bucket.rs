//! The objects under one prefix of a bucket: reading, writing with conditions, listing.

use crate::client::Client;
use crate::error::{Error, Problem, Result};
use crate::location::{Location, shown, trimmed};
use crate::object::Object;
use crate::remote_options::RemoteOptions;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion, WriteMultipart,
};
use std::time::Duration;

/// How long a request may take, with all attempts: it can have many bytes.
const TIME: Duration = Duration::from_secs(300);
/// How often a request is sent whose answer breaks off.
const TRIES: u32 = 5;
/// The least bytes of a part of a large object. S3 asks for at least 5 MiB.
const PART: usize = 8 << 20;
/// The most parts that S3 takes.
const PARTS: u64 = 10_000;
/// How many parts are under way at once.
const AT_ONCE: usize = 4;

/// An object as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// Its bytes, or those that were asked for.
    pub bytes: Vec<u8>,
    /// Its ETag.
    pub tag: String,
    /// Its length in bytes.
    pub len: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Bucket {
    object: Object,
    /// It is a web server, which has no lists, and is only read.
    is_web: bool,
}

impl Bucket {
    /// The objects under a prefix: `s3://BUCKET/PREFIX`, or `s3://BUCKET`. Sends nothing.
    ///
    /// # Errors
    /// [`Problem::Url`], and those of certificates and settings.
    pub fn open(client: &'static Client, url: &str, options: &RemoteOptions) -> Result<Bucket> {
        let url = trimmed(url);
        if !matches!(Location::prefix(url)?, Location::Bucket { .. }) {
            let why = "a replica is in s3://BUCKET/PREFIX or in a directory, not on a web server";
            return Err(Error::new(shown(url), Problem::Setting(why.into())));
        }
        Bucket::to_read(client, url, options)
    }

    /// The same for reading: also `https://HOST/PREFIX` and `http://HOST/PREFIX`. Sends nothing.
    ///
    /// # Errors
    /// As [`Bucket::open`].
    pub fn to_read(client: &'static Client, url: &str, options: &RemoteOptions) -> Result<Bucket> {
        let url = trimmed(url);
        let location = Location::prefix(url)?;
        let is_web = matches!(location, Location::Web(_));
        let object = Object::at(client.transport(), url, location, options)?;
        Ok(Bucket { object, is_web })
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Whether [`Bucket::list`] works.
    #[must_use]
    pub fn has_lists(&self) -> bool {
        !self.is_web
    }

    /// Reads a whole object, or a part of it; `None` if there is none.
    fn read(&self, name: &str, range: Option<GetRange>) -> Result<Option<Got>> {
        // Answers of web servers are judged as those to a request for a range.
        let range = match self.is_web {
            true => range.or(Some(GetRange::Offset(0))),
            false => range,
        };
        again(|| self.read_once(name, range.clone()))
    }

    fn read_once(&self, name: &str, range: Option<GetRange>) -> Result<Option<Got>> {
        let name = name.to_owned();
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let got = self.object.run(TIME, async move |store, prefix| {
            let answer = store.get_opts(&prefix.join(name), options).await?;
            let (tag, len) = (answer.meta.e_tag.clone(), answer.meta.size);
            Ok((answer.bytes().await?, tag, len))
        });
        match got {
            Ok((bytes, tag, len)) => {
                self.object.counting().arrived(bytes.len() as u64);
                Ok(Some(Got {
                    bytes: bytes.into(),
                    tag: tag.unwrap_or_default(),
                    len,
                }))
            }
            Err(e) if *e.problem() == Problem::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads a whole object; `None` if there is none of this name.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn get(&self, name: &str) -> Result<Option<Got>> {
        self.read(name, None)
    }

    /// Reads so many bytes at the end of an object, or all of it.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn get_end(&self, name: &str, len: u64) -> Result<Option<Got>> {
        self.read(name, Some(GetRange::Suffix(len)))
    }

    /// Reads a range of an object.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Option<Got>> {
        self.read(name, Some(GetRange::Bounded(offset..offset + len)))
    }

    /// Creates an object. Returns its ETag; `None` if there is one of this name, which an earlier
    /// attempt of this call can have created.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        again(|| self.put(name, bytes, PutMode::Create)).map_err(Error::of_write)
    }

    /// Replaces an object with this ETag. Returns the new one; `None` if it has another one.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn replace(&self, name: &str, bytes: &[u8], tag: &str) -> Result<Option<String>> {
        let version = UpdateVersion {
            e_tag: Some(tag.to_owned()),
            version: None,
        };
        let put = again(|| self.put(name, bytes, PutMode::Update(version.clone())));
        put.map_err(Error::of_write)
    }

    fn put(&self, name: &str, bytes: &[u8], mode: PutMode) -> Result<Option<String>> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        let replaces = matches!(mode, PutMode::Update(_));
        let put = self.object.run(TIME, async move |store, prefix| {
            let options = PutOptions::from(mode);
            store
                .put_opts(&prefix.join(name), bytes.into(), options)
                .await
        });
        match put {
            Ok(done) => Ok(Some(done.e_tag.unwrap_or_default())),
            Err(e) if *e.problem() == Problem::Condition => Ok(None),
            // The object that was to be replaced is gone.
            Err(e) if replaces && *e.problem() == Problem::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Begins an object of about so many bytes. It replaces one of this name when it is finished.
    #[must_use]
    pub fn upload(&self, name: &str, about: u64) -> BucketUpload<'_> {
        // Twice as many bytes can come.
        let part = usize::try_from(about.div_ceil(PARTS / 2)).unwrap_or(PART);
        BucketUpload {
            part: part.max(PART),
            bucket: self,
            name: name.to_owned(),
            rest: Vec::new(),
            writer: None,
        }
    }

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn remove(&self, name: &str) -> Result<()> {
        let done = again(|| {
            let name = name.to_owned();
            self.object.run(TIME, async move |store, prefix| {
                store.delete(&prefix.join(name)).await
            })
        });
        match done {
            Err(e) if *e.problem() == Problem::NotFound => Ok(()),
            done => done.map_err(Error::of_write),
        }
    }

    /// Returns an error if the bucket does not exist.
    ///
    /// # Errors
    /// [`Problem::NoBucket`]; see [`Problem`].
    pub fn must_exist(&self) -> Result<()> {
        let listed = again(|| {
            self.object.run(TIME, async move |store, prefix| {
                // One entry is enough.
                store.list(Some(&prefix)).try_next().await.map(drop)
            })
        });
        listed.map_err(|e| match e.problem() {
            Problem::NotFound => e.of_write(),
            _ => e,
        })
    }

    /// Names and lengths of the objects whose names begin with `begin` and come after `after`, in
    /// the order of their names.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn list(&self, begin: &str, after: &str) -> Result<Vec<(String, u64)>> {
        match begin.is_empty() && after.is_empty() {
            true => again(|| self.list_all()),
            false => again(|| self.list_once(begin, after)),
        }
    }

    /// All of them, and nothing of the folders below: they can have much.
    fn list_all(&self) -> Result<Vec<(String, u64)>> {
        self.object.run(TIME, async move |store, prefix| {
            let listed = store.list_with_delimiter(Some(&prefix)).await?;
            let objects = listed.objects.iter();
            let named = objects.filter_map(|o| Some((o.location.filename()?.to_owned(), o.size)));
            let mut found: Vec<(String, u64)> = named.collect();
            found.sort();
            Ok(found)
        })
    }

    /// The names of the folders right below the prefix, in their order.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn folders(&self) -> Result<Vec<String>> {
        again(|| {
            self.object.run(TIME, async move |store, prefix| {
                let listed = store.list_with_delimiter(Some(&prefix)).await?;
                let names = listed.common_prefixes.iter().filter_map(Path::filename);
                let mut names: Vec<String> = names.map(str::to_owned).collect();
                names.sort();
                Ok(names)
            })
        })
    }

    fn list_once(&self, begin: &str, after: &str) -> Result<Vec<(String, u64)>> {
        let (begin, after) = (begin.to_owned(), after.to_owned());
        self.object.run(TIME, async move |store, prefix| {
            let mut found = Vec::new();
            let offset = match after.as_str() > begin.as_str() {
                true => prefix.clone().join(after.as_str()),
                false if begin.is_empty() => prefix.clone(),
                false => prefix.clone().join(begin.as_str()),
            };
            let mut all = store.list_with_offset(Some(&prefix), &offset);
            while let Some(object) = all.try_next().await? {
                // The name of an object, or of a folder that it is in.
                let mut parts = object.location.parts().skip(prefix.parts_count());
                let Some(name) = parts.next().map(|part| part.as_ref().to_owned()) else {
                    continue;
                };
                if !name.starts_with(&begin) {
                    match name > begin {
                        true => break,
                        false => continue,
                    }
                }
                if name > after && parts.next().is_none() {
                    found.push((name, object.size));
                }
            }
            found.sort();
            Ok(found)
        })
    }
}

/// Repeats what failed because an answer broke off: the library repeats requests that fail, but not
/// those whose answer has begun.
fn again<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 1;
    loop {
        match attempt() {
            Err(e) if matches!(e.problem(), Problem::Other(_)) && tries < TRIES => tries += 1,
            done => return done,
        }
    }
}

/// An object that is being written. One that is not finished does not appear.
pub struct BucketUpload<'a> {
    bucket: &'a Bucket,
    name: String,
    /// Bytes of a part.
    part: usize,
    /// What was not sent.
    rest: Vec<u8>,
    /// Set once there is more than one part.
    writer: Option<WriteMultipart>,
}

impl BucketUpload<'_> {
    /// Appends bytes.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        while self.rest.len() >= self.part {
            let after = self.rest.split_off(self.part);
            let part = std::mem::replace(&mut self.rest, after);
            self.send(part)?;
        }
        Ok(())
    }

    fn send(&mut self, part: Vec<u8>) -> Result<()> {
        let object = &self.bucket.object;
        let (name, size) = (self.name.clone(), self.part);
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let begun = object.run(TIME, async move |store, prefix| {
                    let upload = store.put_multipart(&prefix.join(name)).await?;
                    Ok(WriteMultipart::new_with_chunk_size(upload, size))
                });
                begun.map_err(Error::of_write)?
            }
        };
        let sent = object.run(TIME, async move |_, _| {
            let mut writer = writer;
            match writer.wait_for_capacity(AT_ONCE).await {
                Ok(()) => {
                    writer.put(part.into());
                    Ok(writer)
                }
                Err(e) => {
                    let _ = writer.abort().await;
                    Err(e)
                }
            }
        });
        self.writer = Some(sent.map_err(Error::of_write)?);
        Ok(())
    }

    /// Makes the object appear.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn finish(mut self) -> Result<()> {
        let object = &self.bucket.object;
        let (name, rest) = (self.name.clone(), std::mem::take(&mut self.rest));
        let done = match self.writer.take() {
            None => object.run(TIME, async move |store, prefix| {
                store.put(&prefix.join(name), rest.into()).await.map(drop)
            }),
            Some(mut writer) => object.run(TIME, async move |_, _| {
                if !rest.is_empty() {
                    writer.put(rest.into());
                }
                writer.finish().await.map(drop)
            }),
        };
        done.map_err(Error::of_write)
    }
}

impl Drop for BucketUpload<'_> {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // What was sent is removed. If that fails, the bucket's own rules remove it.
            let aborted = async move |_, _: Path| writer.abort().await;
            let _ = self.bucket.object.run(TIME, aborted);
        }
    }
}
