//! One remote file: requests for ranges of it.

use crate::arriving::Arriving;
use crate::blocks::BLOCK;
use crate::cache::Cache;
use crate::counters::Counting;
use crate::error::{Error, Problem, Result};
use crate::flight::Flight;
use crate::location::{Location, shown};
use crate::pace::Pace;
use crate::remote_options::RemoteOptions;
use crate::service::{Service, deepest, find};
use crate::thread::{GRACE, Thread};
use crate::transport::Transport;
use crate::version::Version;
use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, RetryConfig};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The variables in which users name another store than Amazon's.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"];

/// A remote file that can be asked for ranges.
#[derive(Debug)]
pub(crate) struct Object {
    /// The URL for messages.
    url: String,
    thread: &'static Thread,
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
    pub(crate) fn new(
        transport: &'static Transport,
        url: &str,
        options: &RemoteOptions,
    ) -> Result<Object> {
        Object::at(transport, url, Location::parse(url)?, options)
    }

    /// The same for a place that is known. `url` is for messages.
    ///
    /// # Errors
    /// Those of certificates and settings.
    pub(crate) fn at(
        transport: &'static Transport,
        url: &str,
        location: Location,
        options: &RemoteOptions,
    ) -> Result<Object> {
        let counting = Arc::new(Counting::default());
        let failed = |problem| Error::new(shown(url), problem);
        let service = Service::new(
            transport.web.of(&location, options).map_err(failed)?,
            counting.clone(),
        );
        let (store, path) = store(&location, &service, options.timeout).map_err(failed)?;
        Ok(Object {
            url: shown(url),
            thread: &transport.thread,
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

    /// How long the file must still stay as it was answered last, until its version is certain.
    pub(crate) fn time_until_unique(&self) -> Duration {
        self.service.time_until_unique()
    }

    /// How fast bytes come.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// What reading has cost.
    pub(crate) fn counting(&self) -> Arc<Counting> {
        self.counting.clone()
    }

    /// How long a reader waits for an answer that ends itself in time.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout + GRACE
    }

    /// Whether this process, and not its parent, opened the file.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.thread.is_of_this_process()
    }

    /// Asks for the blocks of `flight`, of this version, and puts them into `cache` as they arrive.
    pub(crate) fn stream(
        self: &Arc<Self>,
        version: &Version,
        flight: &Arc<Flight>,
        cache: &Arc<Cache>,
    ) {
        let (object, version) = (self.clone(), version.clone());
        let (flight_now, cache) = (flight.clone(), cache.clone());
        let sent = self.thread.spawn(async move {
            let received = object.receive(&version, &flight_now, &cache);
            let end = match tokio::time::timeout(object.timeout, received).await {
                Ok(end) => end,
                Err(_) => Err(Problem::Timeout(object.timeout, None)),
            };
            flight_now.end(end.map_err(|problem| object.fail(problem)));
        });
        match sent {
            Ok(task) => flight.is_done_by(task),
            Err(problem) => flight.end(Err(self.fail(problem))),
        }
    }

    async fn receive(
        &self,
        version: &Version,
        flight: &Flight,
        cache: &Cache,
    ) -> std::result::Result<(), Problem> {
        let blocks = flight.blocks();
        let range = blocks.start * BLOCK..(blocks.end * BLOCK).min(version.len);
        let mut options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        version.demand(&mut options);
        let begun = Instant::now();
        let failed = |e: object_store::Error| self.problem(&e, begun);
        let answer = self
            .store
            .get_opts(&self.path, options)
            .await
            .map_err(failed)?;
        let delay = begun.elapsed();
        match Version::of(&answer.meta) {
            Some(found) if found == *version => {}
            Some(_) => return Err(Problem::Changed),
            None => return Err(Problem::NoVersion),
        }
        let expected = range.end - range.start;
        let wrong = |n: u64| Problem::WrongRange(format!("{n} bytes instead of {expected}"));
        let mut body = answer.into_stream();
        let (mut received, mut next, mut rest) = (0, blocks.start, Vec::new());
        while let Some(part) = body.try_next().await.map_err(failed)? {
            received += part.len() as u64;
            self.counting.arrived(part.len() as u64);
            if received > expected {
                return Err(wrong(received));
            }
            rest.extend_from_slice(&part);
            let whole = rest.len() as u64 / BLOCK;
            if whole > 0 {
                let after = rest.split_off(usize::try_from(whole * BLOCK).unwrap_or(rest.len()));
                cache.keep(next, &rest);
                rest = after;
                next += whole;
                flight.arrive(whole);
            }
        }
        if received != expected {
            return Err(wrong(received));
        }
        if !rest.is_empty() {
            cache.keep(next, &rest);
            flight.arrive(1);
        }
        self.counting.received(begun.elapsed());
        self.pace.received(received, delay, begun.elapsed() - delay);
        Ok(())
    }

    /// Reads a range, and returns its bytes and the version they are of. If the file ends before the
    /// range does, these are fewer bytes.
    ///
    /// # Errors
    /// See [`Problem`].
    pub(crate) fn first(&self, range: Range<u64>) -> Result<(Vec<u8>, Version)> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let begun = Instant::now();
        let (bytes, meta, delay) = self.run(self.timeout, async move |store, path| {
            let answer = store.get_opts(&path, options).await?;
            let (meta, delay) = (answer.meta.clone(), begun.elapsed());
            Ok((answer.bytes().await?, meta, delay))
        })?;
        self.counting.arrived(bytes.len() as u64);
        self.counting.received(begun.elapsed());
        self.pace
            .received(bytes.len() as u64, delay, begun.elapsed() - delay);
        let found = Version::of(&meta).ok_or_else(|| self.fail(Problem::NoVersion))?;
        let expected = range.end.min(found.len).saturating_sub(range.start);
        if bytes.len() as u64 != expected {
            let why = format!("{} bytes instead of {expected}", bytes.len());
            return Err(self.fail(Problem::WrongRange(why)));
        }
        Ok((bytes.into(), found))
    }

    /// Runs a task of the store on its file, for at most this time.
    ///
    /// # Errors
    /// See [`Problem`].
    pub(crate) fn run<T, F>(
        &self,
        time: Duration,
        task: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let begun = Instant::now();
        let task = task(self.store.clone(), self.path.clone());
        let done = self.thread.run(time, task);
        done.and_then(|done| done.map_err(|e| self.problem(&e, begun)))
            .map_err(|problem| self.fail(problem))
    }

    /// Starts a request for a range of a file whose path continues that of this one with `name`.
    ///
    /// # Errors
    /// See [`Problem`].
    pub(crate) fn send(&self, name: &str, range: Range<u64>) -> Result<Arriving> {
        let path = self.path.clone().join(name);
        let (arriving, task) = Arriving::of(self.store.clone(), path, range);
        let sent = self.thread.spawn(task);
        sent.map_err(|problem| self.fail(problem))?;
        Ok(arriving)
    }

    /// An error of this file that ended a request of this time.
    pub(crate) fn failed(&self, error: &object_store::Error, begun: Instant) -> Error {
        self.fail(self.problem(error, begun))
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

/// Checks the address of the store. The library below takes any text.
fn endpoint() -> std::result::Result<(), Problem> {
    for name in ENDPOINTS {
        let value = std::env::var(name).unwrap_or_default();
        let is_web = |url: url::Url| url.has_host() && ["http", "https"].contains(&url.scheme());
        if !value.is_empty() && !url::Url::parse(&value).is_ok_and(is_web) {
            let why = format!("{name} is no address; begin it with https:// or http://");
            return Err(Problem::Setting(why));
        }
    }
    Ok(())
}

fn store(
    location: &Location,
    service: &Service,
    timeout: Duration,
) -> std::result::Result<(Arc<dyn ObjectStore>, Path), Problem> {
    let retry = RetryConfig {
        retry_timeout: timeout,
        // The time decides, not a number.
        max_retries: usize::MAX,
        ..RetryConfig::default()
    };
    match location {
        Location::Web(url) => {
            let store = HttpBuilder::new()
                .with_url(url.clone())
                .with_retry(retry)
                .with_http_connector(service.clone())
                .build()
                .map_err(|e| setting(&e))?;
            // The URL is complete, so nothing is appended to it.
            Ok((Arc::new(store), Path::default()))
        }
        Location::Bucket { bucket, key } => {
            endpoint()?;
            let store = AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(service.clone())
                .build()
                .map_err(|e| setting(&e))?;
            let path = Path::parse(key).map_err(|e| Problem::Url(e.to_string()))?;
            Ok((Arc::new(store), path))
        }
    }
}

fn setting(error: &object_store::Error) -> Problem {
    Problem::Setting(format!("the settings do not work: {}", deepest(error)))
}
