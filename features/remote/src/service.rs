//! One request: it is counted, and its answer is judged before anything reads the body.
//!
//! A final failure is returned at once. After a temporary one (429, 5xx, a broken connection),
//! `object_store` repeats the request. The failure is noted, for the message in case that all attempts fail.

use crate::counters::Counting;
use crate::error::Problem;
use crate::version::{put_right, time_until_unique};
use async_trait::async_trait;
use densite_disk::sync::Mutex;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_MATCH, IF_UNMODIFIED_SINCE,
    RANGE,
};
use http::{HeaderMap, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The header that each signed request to a bucket has.
const SIGNED: &str = "x-amz-content-sha256";
/// The header in which S3 names the region of a bucket.
const BUCKET_REGION: &str = "x-amz-bucket-region";

/// Sends the requests for one remote file.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    client: reqwest::Client,
    counting: Arc<Counting>,
    last: Arc<Mutex<Option<Problem>>>,
    /// See [`time_until_unique`], of the newest answer.
    time_until_unique: Arc<Mutex<Duration>>,
}

impl Service {
    pub(crate) fn new(client: reqwest::Client, counting: Arc<Counting>) -> Service {
        Service {
            client,
            counting,
            last: Arc::default(),
            time_until_unique: Arc::default(),
        }
    }

    /// The newest failure that may pass; `None` if the newest request succeeded.
    pub(crate) fn last_failure(&self) -> Option<Problem> {
        self.last.lock().clone()
    }

    /// See [`time_until_unique`], of the newest answer.
    pub(crate) fn time_until_unique(&self) -> Duration {
        *self.time_until_unique.lock()
    }

    fn note(&self, problem: Option<Problem>) {
        *self.last.lock() = problem;
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The library judges the answers to all other requests, which are for credentials.
        let is_read = request.headers().contains_key(RANGE);
        let is_write = !is_read && request.headers().contains_key(SIGNED);
        let is_part = request
            .uri()
            .query()
            .is_some_and(|q| q.contains("uploadId"));
        let is_first = !request.headers().contains_key(IF_MATCH)
            && !request.headers().contains_key(IF_UNMODIFIED_SINCE)
            && !is_part;
        self.counting.request();
        let mut response = match HttpService::call(&self.client, request).await {
            Ok(response) => response,
            Err(_) if !is_read && !is_write => {
                self.note(Some(Problem::NoCredentials));
                return Err(verdict(Problem::NoCredentials));
            }
            Err(error) => {
                let problem = failure(&error);
                let is_final = match &problem {
                    Problem::Certificate(_) | Problem::UnknownHost(_) => true,
                    // At the first request the address is probably wrong.
                    Problem::Connect(_) => is_first,
                    _ => false,
                };
                self.note(Some(problem.clone()));
                return Err(if is_final { verdict(problem) } else { error });
            }
        };
        if !is_read && !is_write {
            let is_good = response.status().is_success();
            self.note((!is_good).then_some(Problem::NoCredentials));
            return Ok(response);
        }
        put_right(response.headers_mut());
        let (status, headers) = (response.status(), response.headers());
        let judgement = match is_write {
            true if status.is_success() => Judgement::Good,
            true => judge_failure(status, headers),
            false => judge(is_first, status, headers),
        };
        match judgement {
            Judgement::Good => {
                self.note(None);
                *self.time_until_unique.lock() = time_until_unique(headers);
            }
            Judgement::Passing(problem) => self.note(Some(problem)),
            Judgement::Final(problem) => return Err(verdict(problem)),
        }
        Ok(response)
    }
}

impl HttpConnector for Service {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

enum Judgement {
    Good,
    /// It may be otherwise soon.
    Passing(Problem),
    Final(Problem),
}

/// Judges the answer to a request for one range. `is_first`: the request names no version.
fn judge(is_first: bool, status: StatusCode, headers: &HeaderMap) -> Judgement {
    let text = |name: &str| {
        let value = headers.get(name)?;
        Some(value.to_str().unwrap_or("?").to_owned())
    };
    let problem = match status {
        StatusCode::PARTIAL_CONTENT => {
            let encoding = text(CONTENT_ENCODING.as_str());
            match encoding.filter(|how| !how.eq_ignore_ascii_case("identity")) {
                Some(how) => Problem::Encoded(how),
                None => match text(CONTENT_RANGE.as_str()) {
                    Some(range) if has_length(&range) => return Judgement::Good,
                    Some(range) => Problem::WrongRange(format!(
                        "its Content-Range ({range}) does not say how long the file is; let the server send bytes FIRST-LAST/LENGTH"
                    )),
                    None => Problem::WrongRange("the answer has no Content-Range".into()),
                },
            }
        }
        // Some servers know no range of an empty file.
        StatusCode::OK if text(CONTENT_LENGTH.as_str()).is_some_and(|len| len == "0") => {
            Problem::Empty
        }
        StatusCode::OK => Problem::NoRanges(text(CONTENT_TYPE.as_str()).unwrap_or_default()),
        StatusCode::PRECONDITION_FAILED => Problem::Changed,
        // A first request begins at the first byte, and a later one is for bytes that were there.
        StatusCode::RANGE_NOT_SATISFIABLE if is_first => Problem::Empty,
        StatusCode::RANGE_NOT_SATISFIABLE => Problem::Changed,
        _ => return judge_failure(status, headers),
    };
    Judgement::Final(problem)
}

/// Whether a Content-Range says how long the file is.
fn has_length(range: &str) -> bool {
    let len = range.rsplit_once('/').map(|(_, len)| len.parse::<u64>());
    range.starts_with("bytes ") && matches!(len, Some(Ok(_)))
}

/// Judges a status that says the same for reading and writing.
fn judge_failure(status: StatusCode, headers: &HeaderMap) -> Judgement {
    let text = |name: &str| {
        let value = headers.get(name)?;
        Some(value.to_str().unwrap_or("?").to_owned())
    };
    let problem = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Problem::NotFound,
        StatusCode::PRECONDITION_FAILED => Problem::Condition,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Problem::Refused(status.as_u16()),
        _ if status.is_redirection() => match text(BUCKET_REGION) {
            Some(region) => Problem::Region(region),
            None => Problem::Status(status.as_u16()),
        },
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            return Judgement::Passing(Problem::Status(status.as_u16()));
        }
        _ if status.is_server_error() => {
            return Judgement::Passing(Problem::Status(status.as_u16()));
        }
        _ => Problem::Status(status.as_u16()),
    };
    Judgement::Final(problem)
}

/// An error that is not tried again.
fn verdict(problem: Problem) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, problem)
}

/// What kept a request from being answered.
fn failure(error: &HttpError) -> Problem {
    if let Some(why) = find(error, certificate) {
        return Problem::Certificate(why);
    }
    let deepest = deepest(error);
    match error.kind() {
        // The library gives names that do not resolve no type of their own.
        HttpErrorKind::Connect if deepest.contains("lookup address") => {
            Problem::UnknownHost(deepest)
        }
        HttpErrorKind::Connect => Problem::Connect(deepest),
        _ => Problem::Other(deepest),
    }
}

/// What is wrong with a certificate, if `error` says so.
fn certificate(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(rustls::Error::InvalidCertificate(what)) = error.downcast_ref() {
        return Some(what.to_string());
    }
    // An I/O error passes over what it wraps when it is asked for its source.
    certificate(error.downcast_ref::<std::io::Error>()?.get_ref()?)
}

/// The first answer of `look` in an error and its causes.
pub(crate) fn find<T>(
    error: &(dyn Error + 'static),
    look: impl Fn(&(dyn Error + 'static)) -> Option<T>,
) -> Option<T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = look(error) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The text of the first cause.
pub(crate) fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, headers: &[(&'static str, &str)]) -> Result<(), (bool, Problem)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a value"));
        }
        match judge(true, StatusCode::from_u16(status).expect("a status"), &map) {
            Judgement::Good => Ok(()),
            Judgement::Passing(problem) => Err((false, problem)),
            Judgement::Final(problem) => Err((true, problem)),
        }
    }

    #[test]
    fn only_a_plain_range_is_good() {
        let range = ("content-range", "bytes 0-1/2");
        assert_eq!(judged(206, &[range]), Ok(()));
        assert_eq!(
            judged(206, &[range, ("content-encoding", "identity")]),
            Ok(())
        );
        for (status, headers, expected) in [
            (
                206,
                vec![range, ("content-encoding", "gzip")],
                Problem::Encoded("gzip".into()),
            ),
            (200, vec![], Problem::NoRanges(String::new())),
            (
                200,
                vec![("content-type", "text/html")],
                Problem::NoRanges("text/html".into()),
            ),
            (404, vec![], Problem::NotFound),
            (403, vec![], Problem::Refused(403)),
            (412, vec![], Problem::Changed),
            (418, vec![], Problem::Status(418)),
            (416, vec![], Problem::Empty),
            (
                301,
                vec![(BUCKET_REGION, "eu-west-1")],
                Problem::Region("eu-west-1".into()),
            ),
        ] {
            assert_eq!(judged(status, &headers), Err((true, expected)));
        }
        for headers in [&[][..], &[("content-range", "bytes 0-1/*")]] {
            match judged(206, headers) {
                Err((true, Problem::WrongRange(why))) => assert!(why.contains("Content-Range")),
                other => panic!("{other:?}"),
            }
        }
        for status in [408, 429, 500, 503] {
            assert_eq!(judged(status, &[]), Err((false, Problem::Status(status))));
        }
    }
}
