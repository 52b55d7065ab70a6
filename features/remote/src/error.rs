//! What went wrong with a remote file, in one sentence that says what to do.

use std::fmt;
use std::time::Duration;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, with the file's URL. The URL is shown without its query, which can be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {problem}")]
pub struct Error {
    url: String,
    problem: Problem,
}

impl Error {
    pub(crate) fn new(url: impl Into<String>, problem: Problem) -> Error {
        Error {
            url: url.into(),
            problem,
        }
    }

    /// The error of a request that writes.
    pub(crate) fn of_write(self) -> Error {
        Error {
            problem: self.problem.of_write(),
            ..self
        }
    }

    /// What went wrong.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The URL cannot be read, with the reason.
    Url(String),
    /// There is no such file (404).
    NotFound,
    /// There is no such bucket (404).
    NoBucket,
    /// The server does not allow it: its status, 401 or 403.
    Refused(u16),
    /// The bucket is in this other region.
    Region(String),
    /// The file has no bytes.
    Empty,
    /// The server ignores ranges, and sends something of this content type.
    NoRanges(String),
    /// The answer is not the range that was asked for, with the reason.
    WrongRange(String),
    /// The body is encoded (gzip), so its bytes are not those of the file.
    Encoded(String),
    /// The server names no version: no strong ETag and no Last-Modified.
    NoVersion,
    /// Another version is there now.
    Changed,
    /// The condition of a write does not hold (412): the object exists, or has another version.
    Condition,
    /// The server's certificate is not trusted, with the reason.
    Certificate(String),
    /// The system has no certificates to trust.
    NoCertificates,
    /// A file of certificates cannot be used, with the reason.
    CaFile(String),
    /// The host's name does not resolve.
    UnknownHost(String),
    /// No connection, with the reason.
    Connect(String),
    /// Another status.
    Status(u16),
    /// No complete answer within this time, with the last failure, if there was one.
    Timeout(Duration, Option<Box<Problem>>),
    /// The caller stopped the work.
    Stopped,
    /// A local file could not be read, with the reason.
    Local(String),
    /// The file was opened by the process that this one was forked from.
    Forked,
    /// No credentials were found for a bucket.
    NoCredentials,
    /// The settings of the environment do not work, with the reason.
    Setting(String),
    /// Another failure, with the reason.
    Other(String),
    /// The same for a write.
    Unwritten(String),
}

impl Problem {
    /// The problem of a request that writes.
    pub(crate) fn of_write(self) -> Problem {
        match self {
            Problem::NotFound => Problem::NoBucket,
            Problem::Other(why) => Problem::Unwritten(why),
            Problem::Timeout(time, Some(last)) => {
                Problem::Timeout(time, Some(Box::new(last.of_write())))
            }
            same => same,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Url(why) => write!(f, "this URL cannot be used: {why}"),
            Problem::NotFound => f.write_str(
                "the server has no such file (404); check the URL, which ends with a slash if it is that of a replica",
            ),
            Problem::NoBucket => {
                f.write_str("there is no such bucket (404); create it, or check the URL")
            }
            Problem::Refused(status) => write!(
                f,
                "the server does not allow it ({status}); check the credentials and the rights of the file, and whether a presigned URL has expired"
            ),
            Problem::Region(region) => write!(
                f,
                "the bucket is in the region {region}; set AWS_REGION={region}"
            ),
            Problem::Empty => f.write_str("the file is empty, so it is no database"),
            Problem::NoRanges(kind) if kind.starts_with("text/html") => write!(
                f,
                "the server sends a page ({kind}) in the place of the file; check the URL"
            ),
            Problem::NoRanges(_) => f.write_str(
                "the server ignores ranges and sends the whole file; use a server that answers range requests with 206, or download the file",
            ),
            Problem::WrongRange(why) => {
                write!(f, "the server did not send the range that was asked for: {why}")
            }
            Problem::Encoded(how) => write!(
                f,
                "the server sends it encoded ({how}), so ranges of it cannot be read; store and serve it without Content-Encoding"
            ),
            Problem::NoVersion => f.write_str(
                "the server sends neither a strong ETag nor Last-Modified, so a replaced file could not be noticed (a weak ETag, W/\"…\", does not show every change); let it send one of them",
            ),
            Problem::Changed => f.write_str(
                "the file was replaced while it was open; close the database and open it again",
            ),
            Problem::Condition => f.write_str(
                "another process has written it meanwhile; let one process at a time write it, and try again",
            ),
            Problem::Certificate(why) => write!(
                f,
                "the server's certificate is not trusted ({why}); give its authority as ca_file=PATH or in SSL_CERT_FILE"
            ),
            Problem::NoCertificates => f.write_str(
                "this system has no certificates to trust; install ca-certificates, or give them as ca_file=PATH or in SSL_CERT_FILE",
            ),
            Problem::CaFile(why) => f.write_str(why),
            Problem::UnknownHost(why) => write!(
                f,
                "the host is not known ({why}); check the name, and HTTP_PROXY and HTTPS_PROXY if they are set"
            ),
            Problem::Connect(why) => write!(
                f,
                "no connection ({why}); check the address, and HTTP_PROXY and HTTPS_PROXY if they are set"
            ),
            Problem::Status(status @ 500..) => {
                write!(f, "the server answered with status {status}; try again later")
            }
            Problem::Status(status) => write!(
                f,
                "the server answered with status {status}; check the URL, and what the server allows"
            ),
            Problem::Timeout(time, last) => {
                write!(f, "no complete answer within {} s", time.as_secs_f64())?;
                match last {
                    Some(last) => write!(f, "; the last failure: {last}"),
                    None => f.write_str("; try again, or set timeout=SECONDS"),
                }
            }
            Problem::Stopped => f.write_str("stopped; the object was not changed"),
            Problem::Local(why) => write!(f, "the file to upload cannot be read: {why}"),
            Problem::Forked => f.write_str(
                "it was opened before this process was forked; open the database again in the child",
            ),
            Problem::NoCredentials => f.write_str(
                "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket",
            ),
            Problem::Setting(why) => f.write_str(why),
            Problem::Other(why) => write!(f, "it cannot be read: {why}"),
            Problem::Unwritten(why) => write!(f, "it cannot be written: {why}"),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_is_not_called_a_read() {
        let last = Some(Box::new(Problem::Other("the connection broke".into())));
        let time = Duration::from_secs(9);
        for problem in [
            Problem::Other("the connection broke".into()),
            Problem::Timeout(time, last),
        ] {
            let said = problem.of_write().to_string();
            assert!(
                said.ends_with("it cannot be written: the connection broke"),
                "{said}"
            );
        }
        let said = Problem::NotFound.of_write().to_string();
        assert!(said.starts_with("there is no such bucket"), "{said}");
    }
}
