//! What the monitoring ports say about syncs.

use super::problem::chain;
use crate::{Error, Result, SyncInterval};
use serde::Deserialize;
use std::time::Duration;

/// A part of the answer at `/varz`.
#[derive(Deserialize)]
struct Server {
    jetstream: Option<JetStream>,
}

#[derive(Deserialize)]
struct JetStream {
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    sync_always: bool,
    /// Nanoseconds.
    sync_interval: Option<u64>,
}

/// When the servers sync: the longest interval of them.
pub(super) async fn sync_interval(
    monitors: &[String],
    tls: rustls::ClientConfig,
    timeout: Duration,
) -> Result<SyncInterval> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .timeout(timeout)
        .build()
        .map_err(|e| Error::TryAgain(chain(&e)))?;
    let mut longest = None;
    for monitor in monitors {
        let asked = format!("the monitoring port {monitor}");
        let url = format!("{}/varz", monitor.trim_end_matches('/'));
        let answer = client.get(url).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status);
        let failed = |e: reqwest::Error| Error::TryAgain(format!("{asked}: {}", chain(&e)));
        let text = answer.map_err(failed)?.text().await.map_err(failed)?;
        let found = parsed(&text).ok_or_else(|| {
            Error::Refused(format!("{asked} does not answer as a NATS server does"))
        })?;
        longest = Some(longest.map_or(found, |longest| longer(longest, found)));
    }
    Ok(longest.unwrap_or(SyncInterval::Unknown))
}

/// What one answer says; `None` if it is not one.
fn parsed(text: &str) -> Option<SyncInterval> {
    let server: Server = serde_json::from_str(text).ok()?;
    let config = server.jetstream.and_then(|jetstream| jetstream.config);
    Some(match config {
        Some(config) if config.sync_always => SyncInterval::Always,
        Some(Config {
            sync_interval: Some(nanos),
            ..
        }) => SyncInterval::Every(Duration::from_nanos(nanos)),
        _ => SyncInterval::Unknown,
    })
}

fn longer(a: SyncInterval, b: SyncInterval) -> SyncInterval {
    match (a, b) {
        (SyncInterval::Always, other) | (other, SyncInterval::Always) => other,
        (SyncInterval::Every(a), SyncInterval::Every(b)) => SyncInterval::Every(a.max(b)),
        (SyncInterval::Unknown, _) | (_, SyncInterval::Unknown) => SyncInterval::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_interval_counts() {
        let always =
            r#"{"jetstream":{"config":{"sync_interval":120000000000,"sync_always":true}}}"#;
        let minutes = r#"{"jetstream":{"config":{"sync_interval":120000000000}}}"#;
        let (always, minutes) = (parsed(always), parsed(minutes));
        let two = SyncInterval::Every(Duration::from_secs(120));
        assert_eq!(always, Some(SyncInterval::Always));
        assert_eq!(minutes, Some(two));
        assert_eq!(parsed("{}"), Some(SyncInterval::Unknown), "no JetStream");
        assert_eq!(parsed("<html>"), None);
        assert_eq!(longer(SyncInterval::Always, two), two);
        assert_eq!(longer(two, SyncInterval::Unknown), SyncInterval::Unknown);
    }
}
