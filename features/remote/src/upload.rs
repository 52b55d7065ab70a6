//! Writing an object of a bucket: the new object replaces the old one atomically.
//!
//! S3 makes an object of several parts visible when the last request completes it. A part is
//! protected by a checksum of its own.

use crate::client::Client;
use crate::error::{Error, Problem, Result};
use crate::location::{Location, shown};
use crate::object::Object;
use crate::remote_options::RemoteOptions;
use densite_disk::File;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use std::time::Duration;

/// Bytes of a part. S3 asks for at least 5 MiB.
const PART: u64 = 8 << 20;
/// The most parts that S3 takes.
const PARTS: u64 = 10_000;
/// How many parts are under way at once.
const AT_ONCE: usize = 4;
/// How long a part may take, with all attempts. A read is shorter, and has a limit of its own.
const TIME: Duration = Duration::from_secs(300);

/// Writes the whole of `file` to a URL of object storage. `progress` is called with the bytes that
/// were sent, and stops the work by returning false.
///
/// # Errors
/// See [`Problem`]; then the old object is unchanged, unless the last answer got lost
/// ([`Problem::Timeout`]).
pub fn upload(
    client: &'static Client,
    file: &dyn File,
    url: &str,
    options: &RemoteOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    send(client, file, url, options, progress).map_err(Error::of_write)
}

fn send(
    client: &'static Client,
    file: &dyn File,
    url: &str,
    options: &RemoteOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    if !matches!(Location::parse(url)?, Location::Bucket { .. }) {
        let why = "files are uploaded to s3://BUCKET/KEY; for a web server, name a file and copy it there";
        return Err(Error::new(shown(url), Problem::Url(why.into())));
    }
    let object = Object::new(client.transport(), url, options)?;
    let local = |e: densite_disk::Error| object.fail(Problem::Local(e.to_string()));
    let len = file.len().map_err(local)?;
    let part = PART.max(len.div_ceil(PARTS));
    let mut writer = object.run(TIME, async move |store, path| {
        let upload = store.put_multipart(&path).await?;
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        Ok(WriteMultipart::new_with_chunk_size(upload, part))
    })?;
    let mut done = 0;
    // After the last part, this waits for those that are under way, one after the other, so that the
    // work can still be stopped.
    let mut at_once = AT_ONCE;
    while done < len || at_once > 1 {
        let next = part.min(len - done);
        at_once -= usize::from(next == 0);
        let bytes = match read_part(file, done, next) {
            Ok(bytes) if progress(done) => bytes,
            stopped => {
                let problem = stopped.err().unwrap_or(Problem::Stopped);
                // What was sent is removed. If that fails, the bucket's own rules remove it.
                let _ = object.run(TIME, async move |_, _| writer.abort().await);
                return Err(object.fail(problem));
            }
        };
        writer = object.run(TIME, async move |_, _| {
            match writer.wait_for_capacity(at_once).await {
                Ok(()) => {
                    writer.put(bytes.into());
                    Ok(writer)
                }
                Err(e) => {
                    let _ = writer.abort().await;
                    Err(e)
                }
            }
        })?;
        done += next;
    }
    object.run(TIME, async move |_, _| writer.finish().await.map(drop))?;
    progress(len);
    Ok(())
}

fn read_part(file: &dyn File, offset: u64, len: u64) -> std::result::Result<Vec<u8>, Problem> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    match file.read_at(&mut bytes, offset) {
        Ok(n) if n == bytes.len() => Ok(bytes),
        Ok(_) => Err(Problem::Local("it became shorter".into())),
        Err(e) => Err(Problem::Local(e.to_string())),
    }
}
