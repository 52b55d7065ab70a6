//! One remote file: requests for ranges of it.

use crate::client::Client;
use crate::counters::Counting;
use crate::error::{Error, Problem, Result};
use crate::location::{Location, shown};
use crate::options::Options;
use crate::pace::Pace;
use crate::service::{Service, deepest, find};
use crate::tls;
use crate::version::Version;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, RetryConfig};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A remote file that can be asked for ranges.
#[derive(Debug)]
pub(crate) struct Object {
    /// The URL for messages.
    url: String,
    client: &'static Client,
    service: Service,
    store: Arc<dyn ObjectStore>,
    path: Path,
    counting: Arc<Counting>,
    timeout: Duration,
    pace: Pace,
}

impl Object {
    /// Prepares reading; sends nothing.
    ///
    /// # Errors
    /// [`Problem::Url`], and those of certificates and settings.
    pub(crate) fn new(client: &'static Client, url: &str, options: &Options) -> Result<Object> {
        let location = Location::parse(url)?;
        let counting = Arc::new(Counting::default());
        let failed = |problem| Error::new(shown(url), problem);
        let service = Service::new(
            web_client(&location, options).map_err(failed)?,
            counting.clone(),
        );
        let (store, path) =
            store(&location, &service, options.timeout).map_err(|e| failed(setting(&e)))?;
        Ok(Object {
            url: shown(url),
            client,
            service,
            store,
            path,
            counting,
            timeout: options.timeout,
            pace: Pace::new(options.timeout),
        })
    }

    /// The URL for messages.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How fast bytes come.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// What reading has cost.
    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    /// Reads a range, and returns its bytes and the version they are of. If the file is shorter,
    /// these are fewer bytes. With `version`, other versions are [`Problem::Changed`].
    ///
    /// # Errors
    /// See [`Problem`].
    pub(crate) fn get(
        &self,
        range: Range<u64>,
        version: Option<&Version>,
    ) -> Result<(Vec<u8>, Version)> {
        let mut options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        if let Some(version) = version {
            version.demand(&mut options);
        }
        let (store, path) = (self.store.clone(), self.path.clone());
        let begun = Instant::now();
        let got = self.client.run(self.timeout, async move {
            let answer = store.get_opts(&path, options).await?;
            let meta = answer.meta.clone();
            Ok((answer.bytes().await?, meta))
        });
        let (bytes, meta) = got
            .and_then(|got| got.map_err(|e| self.problem(&e, begun)))
            .map_err(|problem| self.fail(problem))?;
        self.counting.received(bytes.len() as u64, begun.elapsed());
        self.pace.received(bytes.len() as u64, begun.elapsed());
        let found = Version::of(&meta).ok_or_else(|| self.fail(Problem::NoVersion))?;
        if version.is_some_and(|version| *version != found) {
            return Err(self.fail(Problem::Changed));
        }
        let expected = range.end.min(found.len).saturating_sub(range.start);
        if bytes.len() as u64 != expected {
            let why = format!("{} bytes instead of {expected}", bytes.len());
            return Err(self.fail(Problem::WrongRange(why)));
        }
        Ok((bytes.into(), found))
    }

    /// An error of this file.
    pub(crate) fn fail(&self, problem: Problem) -> Error {
        let problem = match problem {
            Problem::Timeout(time, None) => {
                Problem::Timeout(time, self.service.last_failure().map(Box::new))
            }
            other => other,
        };
        Error::new(&self.url, problem)
    }

    fn problem(&self, error: &object_store::Error, begun: Instant) -> Problem {
        if let Some(verdict) = find(error, |e| e.downcast_ref::<Problem>().cloned()) {
            return verdict;
        }
        match self.service.last_failure() {
            // All attempts failed.
            Some(_) if begun.elapsed() >= self.timeout => Problem::Timeout(self.timeout, None),
            Some(last) => last,
            None => Problem::Other(deepest(error)),
        }
    }
}

/// The client of one file: the certificates that it trusts are its own.
fn web_client(
    location: &Location,
    options: &Options,
) -> std::result::Result<reqwest::Client, Problem> {
    let is_plain = matches!(location, Location::Web(url) if url.scheme() == "http");
    let tls = tls::config(options.ca_file.as_deref(), !is_plain)?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(options.timeout)
        .build()
        .map_err(|e| Problem::Setting(deepest(&e)))
}

fn store(
    location: &Location,
    service: &Service,
    timeout: Duration,
) -> object_store::Result<(Arc<dyn ObjectStore>, Path)> {
    let retry = RetryConfig {
        retry_timeout: timeout,
        ..RetryConfig::default()
    };
    match location {
        Location::Web(url) => {
            let store = HttpBuilder::new()
                .with_url(url.clone())
                .with_retry(retry)
                .with_http_connector(service.clone())
                .build()?;
            // The URL is complete, so nothing is appended to it.
            Ok((Arc::new(store), Path::default()))
        }
        Location::Bucket { bucket, key } => {
            let store = AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(service.clone())
                .build()?;
            let path = Path::parse(key).map_err(object_store::Error::from)?;
            Ok((Arc::new(store), path))
        }
    }
}

fn setting(error: &object_store::Error) -> Problem {
    Problem::Setting(format!("the settings do not work: {}", deepest(error)))
}
