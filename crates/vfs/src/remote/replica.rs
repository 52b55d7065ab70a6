//! A prefix of a bucket as a place for a replica.

use super::CLIENT;
use densite_remote::{BucketUpload, Client, Got, Options, Problem};
use densite_replica::{Bucket, Error, Listed, Result, Stored, Upload};

/// The objects under a URL of object storage.
///
/// # Errors
/// A sentence with the URL, without secrets.
pub fn bucket(url: &str) -> std::result::Result<Box<dyn Bucket>, String> {
    let client: &'static Client = CLIENT.get();
    let opened = densite_remote::Bucket::open(client, url, &Options::default());
    Ok(Box::new(Prefix(opened.map_err(|e| e.to_string())?)))
}

struct Prefix(densite_remote::Bucket);

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
        let got = self.0.get(name).map_err(|e| failed(&e))?;
        Ok(got.map(stored))
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        let got = self.0.get_end(name, len).map_err(|e| failed(&e))?;
        Ok(got.map(stored))
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let got = self.0.get_range(name, offset, len);
        let got = got.map_err(|e| failed(&e))?;
        let got = got.ok_or_else(|| Error::Missing(name.to_owned()))?;
        match got.bytes.len() as u64 == len {
            true => Ok(got.bytes),
            false => Err(Error::Bucket(format!("the object {name} became shorter"))),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.0.create(name, bytes).map_err(|e| match e.problem() {
            Problem::NotFound => {
                Error::Bucket("there is no such bucket (404); create it, or check the URL".into())
            }
            _ => failed(&e),
        })
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.0.replace(name, bytes, version).map_err(|e| failed(&e))
    }

    fn upload(&self, name: &str, about: u64) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(Uploading(self.0.upload(name, about))))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name).map_err(|e| failed(&e))
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        let found = self.0.list(prefix, after).map_err(|e| failed(&e))?;
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
