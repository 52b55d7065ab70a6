//! Reading a file of nginx, and what each failure is told as.

use densite_remote::{Bucket, Client, Error, Problem, Remote, RemoteOptions};
use densite_testing::{Fault, FaultProxy, Nginx};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

static CLIENT: LazyLock<Client> = LazyLock::new(Client::default);

/// A file of nginx, behind a proxy.
struct Site {
    proxy: FaultProxy,
    nginx: Nginx,
    bytes: Vec<u8>,
    path: PathBuf,
    _dirs: [TempDir; 2],
}

impl Site {
    /// A file with this many bytes; `None` if there is no nginx.
    fn new(len: usize) -> Option<Site> {
        let dirs = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
        let [root, own] = &dirs;
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        let path = root.path().join("a.bin");
        std::fs::write(&path, &bytes).expect("written");
        age(&path);
        let nginx = Nginx::start(root.path(), own.path())?;
        Some(Site {
            proxy: FaultProxy::start(nginx.port()),
            nginx,
            bytes,
            path,
            _dirs: dirs,
        })
    }

    fn open(&self) -> Result<Arc<Remote>, Error> {
        self.open_within(Duration::from_secs(20))
    }

    fn open_within(&self, timeout: Duration) -> Result<Arc<Remote>, Error> {
        let options = RemoteOptions {
            timeout,
            ..RemoteOptions::default()
        };
        CLIENT.open(&self.proxy.http("a.bin"), &options)
    }

    /// Reads and compares.
    fn same(&self, remote: &Remote, offset: usize, len: usize) {
        let mut buf = vec![0; len];
        let n = remote.read_at(&mut buf, offset as u64).expect("reads");
        let end = (offset + len).min(self.bytes.len());
        let expected = self.bytes.get(offset..end).unwrap_or_default();
        assert!(buf.get(..n) == Some(expected), "{len} bytes at {offset}");
    }
}

/// Makes a file a minute older. nginx names versions by the second, so a new file is waited for.
fn age(path: &Path) {
    let file = std::fs::File::options().write(true).open(path);
    let then = SystemTime::now() - Duration::from_secs(60);
    file.and_then(|file| file.set_modified(then))
        .expect("older");
}

fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> Problem {
    result.expect_err("fails").problem().clone()
}

#[test]
fn any_range_of_a_file_is_read() {
    let Some(site) = Site::new(1_000_003) else {
        return;
    };
    let remote = site.open().expect("opens");
    assert_eq!(remote.len(), 1_000_003);
    for (offset, len) in [
        (0, 100),
        (16_383, 2),
        (70_000, 60_000),
        (999_990, 100),
        (500_000, 1),
        (0, 2_000_000),
        (1_000_003, 1),
        (5_000_000, 1),
    ] {
        site.same(&remote, offset, len);
    }
}

#[test]
fn an_open_file_takes_one_request_and_a_scan_few() {
    let Some(site) = Site::new(10 << 20) else {
        return;
    };
    // A request asks for what comes within a quarter of the limit at the newest pace. On a machine
    // that stops for a moment that is less.
    let remote = site
        .open_within(Duration::from_secs(24 * 3600))
        .expect("opens");
    site.same(&remote, 0, 60_000);
    assert_eq!(site.proxy.take_counts(), (1, 64 << 10), "the head");
    for offset in (0..10 << 20).step_by(4096) {
        site.same(&remote, offset, 4096);
    }
    // 64 KiB, then 128, 256, ... KiB, 4 MiB.
    assert_eq!(site.proxy.take_counts(), (7, (10 << 20) - (64 << 10)));
    let counters = remote.counters();
    assert_eq!((counters.requests, counters.bytes), (8, 10 << 20));
    assert!(counters.hits > 2000 && counters.slowest > Duration::ZERO);
}

#[test]
fn random_reads_ask_for_one_block_each() {
    let Some(site) = Site::new(100 << 20) else {
        return;
    };
    let remote = site.open().expect("opens");
    let _ = site.proxy.take_counts();
    for i in 1..=50 {
        site.same(&remote, (i * 37 % 97) * (1 << 20) + 5000, 1000);
    }
    let (requests, bytes) = site.proxy.take_counts();
    assert_eq!(requests, 50);
    assert_eq!(bytes, 50 * (16 << 10));
}

#[test]
fn a_replaced_file_is_an_error_and_never_a_mixture() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    let remote = site.open().expect("opens");
    site.same(&remote, 500_000, 10);
    let other = site.path.with_extension("new");
    std::fs::write(&other, vec![1; 1 << 20]).expect("written");
    let then = SystemTime::now() - Duration::from_secs(10);
    let file = std::fs::File::options().write(true).open(&other);
    file.and_then(|file| file.set_modified(then))
        .expect("older");
    std::fs::rename(&other, &site.path).expect("replaced");
    let mut buf = [0; 10];
    let changed = problem(remote.read_at(&mut buf, 800_000));
    assert_eq!(changed, Problem::Changed);
    site.same(&remote, 500_000, 10);
    let now = site.open().expect("the new one");
    assert_ne!(now.version(), remote.version());
    now.read_at(&mut buf, 800_000).expect("reads");
    assert_eq!(buf, [1; 10]);
}

#[test]
fn a_file_that_is_open_already_is_shared() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    let first = site.open().expect("opens");
    site.same(&first, 500_000, 10);
    let _ = site.proxy.take_counts();
    let second = site.open().expect("opens");
    site.same(&second, 500_000, 10);
    assert_eq!(site.proxy.take_counts(), (1, 64 << 10), "only its opening");
    assert_eq!(first.counters(), second.counters());
    assert_eq!(first.counters().requests, 3);
    // With other options it is another one, and so is one of no other reader.
    let other = site.open_within(Duration::from_secs(7)).expect("opens");
    assert_eq!(other.counters().requests, 1);
    drop((first, second));
    assert_eq!(site.open().expect("opens").counters().requests, 1);
}

#[test]
fn a_closed_file_fetches_nothing_more() {
    let Some(site) = Site::new(4 << 20) else {
        return;
    };
    let remote = site.open().expect("opens");
    site.proxy.always(Some(Fault::Line {
        delay: Duration::ZERO,
        rate: 1 << 20,
    }));
    // A scan, until a request is under way that takes about a second.
    let mut at = 64 << 10;
    let _ = site.proxy.take_counts();
    while site.proxy.requests() < 5 {
        let mut byte = [0];
        remote.read_at(&mut byte, at).expect("read");
        at += 16 << 10;
    }
    drop(remote);
    // What is on the way still arrives.
    std::thread::sleep(Duration::from_millis(200));
    let (_, fetched) = site.proxy.take_counts();
    std::thread::sleep(Duration::from_millis(500));
    let (requests, more) = site.proxy.take_counts();
    assert_eq!(requests, 0);
    assert!(more < 100 << 10, "{more} bytes after {fetched}");
}

#[test]
fn a_disk_cache_serves_the_next_process() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let options = RemoteOptions {
        cache_dir: Some(dir.path().join("cache")),
        ..RemoteOptions::default()
    };
    let open = || {
        CLIENT
            .open(&site.proxy.http("a.bin"), &options)
            .expect("opens")
    };
    let read = |remote: &Remote| {
        for (offset, len) in [(0, 70_000), (300_000, 10), (900_000, 200_000)] {
            site.same(remote, offset, len);
        }
    };
    read(&open());
    let _ = site.proxy.take_counts();
    // A file that no process has open is read from the disk.
    let again = open();
    read(&again);
    assert_eq!(site.proxy.take_counts(), (1, 64 << 10), "only its opening");
    assert!(again.counters().disk_hits > 10);
    drop(again);
    // Another version has nothing there.
    let other = site.path.with_extension("new");
    // It has another length: nginx names versions by the second and the length.
    std::fs::write(&other, vec![1; 1 + (1 << 20)]).expect("written");
    age(&other);
    std::fs::rename(&other, &site.path).expect("replaced");
    let mut buf = [0; 10];
    let remote = open();
    remote.read_at(&mut buf, 300_000).expect("reads");
    assert_eq!((buf, remote.counters().disk_hits), ([1; 10], 0));
}

/// nginx names a version by its second and length: two of them can have one name.
#[test]
fn a_file_that_is_replaced_within_the_second_is_not_mixed() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    for _ in 0..5 {
        std::fs::write(&site.path, &site.bytes).expect("written");
        let next = site.path.with_extension("new");
        std::fs::write(&next, vec![1; 1 << 20]).expect("written");
        let path = site.path.clone();
        // While the other thread waits for the file to become old enough.
        let replacing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            std::fs::rename(&next, &path).expect("replaced");
        });
        let remote = site.open().expect("opens");
        replacing.join().expect("no panic");
        let mut all = vec![0; 1 << 20];
        let (head, rest) = all.split_at_mut(1000);
        remote.read_at(head, 0).expect("reads");
        if remote.read_at(rest, 1000).is_ok() {
            let is_new = all.iter().all(|byte| *byte == 1);
            assert!(is_new || all == site.bytes, "a mixture");
        }
    }
}

#[test]
fn without_an_etag_the_time_shows_a_replaced_file() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    site.proxy.always(Some(Fault::Without(&["etag"])));
    let remote = site.open().expect("opens");
    site.same(&remote, 500_000, 10);
    let file = std::fs::File::create(&site.path).expect("replaced");
    file.set_len(1 << 20).expect("as long");
    let later = std::time::SystemTime::now() + Duration::from_secs(10);
    file.set_modified(later).expect("later");
    let mut buf = [0; 10];
    assert_eq!(problem(remote.read_at(&mut buf, 800_000)), Problem::Changed);
}

/// The server's clock, or that of the machine that wrote the file, can be wrong.
#[test]
fn a_file_from_the_future_is_opened() {
    let Some(site) = Site::new(100_000) else {
        return;
    };
    let file = std::fs::File::options().write(true).open(&site.path);
    let later = SystemTime::now() + Duration::from_secs(600);
    file.and_then(|file| file.set_modified(later))
        .expect("later");
    for fault in [None, Some(Fault::Without(&["etag"]))] {
        site.proxy.always(fault);
        let begun = Instant::now();
        let remote = site.open().expect("opens");
        assert!(begun.elapsed() < Duration::from_secs(1), "waited");
        assert_eq!(site.proxy.take_counts().0, 1);
        site.same(&remote, 90_000, 10);
        let _ = site.proxy.take_counts();
    }
}

#[test]
fn times_in_obsolete_forms_are_read() {
    let Some(site) = Site::new(100_000) else {
        return;
    };
    for time in [
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "the day before yesterday",
    ] {
        site.proxy
            .always(Some(Fault::Header("Last-Modified", time)));
        let remote = site.open().unwrap_or_else(|e| panic!("{time}: {e}"));
        site.same(&remote, 90_000, 10);
    }
}

/// A delay is not a slow line: a scan takes as few requests as without it.
#[test]
fn a_scan_with_a_long_delay_takes_few_requests() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    site.proxy.always(Some(Fault::Line {
        delay: Duration::from_millis(250),
        rate: 1 << 30,
    }));
    let remote = site.open_within(Duration::from_secs(1)).expect("opens");
    let _ = site.proxy.take_counts();
    for offset in (0..1 << 20).step_by(64 << 10) {
        site.same(&remote, offset, 64 << 10);
    }
    let (requests, _) = site.proxy.take_counts();
    assert!(requests <= 5, "{requests} requests");
}

#[test]
fn a_long_range_that_breaks_off_is_continued() {
    let Some(site) = Site::new(3 << 20) else {
        return;
    };
    let bucket = Bucket::to_read(&CLIENT, &site.proxy.http(""), &RemoteOptions::default());
    let bucket = bucket.expect("a place");
    let read = |range: Range<u64>| {
        let mut all = Vec::new();
        let read = bucket.stream("a.bin", range, &mut |bytes| {
            all.extend_from_slice(bytes);
            true
        });
        read.map(|()| all)
    };
    let (from, to) = (70_000, 3_000_000);
    let expected = &site.bytes[from..to];
    for faults in [
        vec![],
        vec![Fault::Cut],
        vec![Fault::Status(503), Fault::Cut, Fault::Reset, Fault::Cut],
    ] {
        site.proxy.next(faults.clone());
        let got = read(from as u64..to as u64).unwrap_or_else(|e| panic!("{faults:?}: {e}"));
        assert!(got == expected, "{faults:?}: other bytes");
    }
    site.proxy.next([Fault::Status(403)]);
    assert_eq!(problem(read(0..10)), Problem::Refused(403));
    site.proxy.next([Fault::Status(404)]);
    assert_eq!(problem(read(0..10)), Problem::NotFound);
    let stopped = bucket.stream("a.bin", 0..3 << 20, &mut |_| false);
    assert_eq!(problem(stopped), Problem::Stopped);
}

#[test]
fn passing_failures_are_tried_again() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    for fault in [
        Fault::Status(503),
        Fault::Status(429),
        Fault::Reset,
        Fault::Cut,
        Fault::Late(Duration::from_millis(200)),
    ] {
        site.proxy.next([fault.clone(), fault.clone()]);
        let fresh = site.open().unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        site.same(&fresh, 300_000, 100_000);
    }
}

#[test]
fn permanent_failures_are_reported_at_once_with_the_url() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    let gzip = Fault::Header("Content-Encoding", "gzip");
    for (fault, expected) in [
        (Fault::Status(404), Problem::NotFound),
        (Fault::Status(403), Problem::Refused(403)),
        (Fault::Status(401), Problem::Refused(401)),
        (
            Fault::NoRange,
            Problem::NoRanges("application/octet-stream".into()),
        ),
        (gzip, Problem::Encoded("gzip".into())),
        (
            Fault::Without(&["etag", "last-modified"]),
            Problem::NoVersion,
        ),
    ] {
        let begun = Instant::now();
        site.proxy.next([fault.clone()]);
        let url = format!("{}?X-Amz-Signature=secret", site.proxy.http("a.bin"));
        let error = CLIENT
            .open(&url, &RemoteOptions::default())
            .expect_err("fails");
        assert_eq!(*error.problem(), expected, "{fault:?}");
        let said = error.to_string();
        assert!(said.starts_with(&site.proxy.http("a.bin")), "{said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{fault:?}");
    }
    site.proxy.next([Fault::OtherRange("bytes=16-79")]);
    assert!(matches!(
        problem(site.open()),
        Problem::Other(_) | Problem::WrongRange(_)
    ));
}

#[test]
fn a_server_that_stays_broken_is_reported_after_the_time_limit() {
    let Some(site) = Site::new(1 << 20) else {
        return;
    };
    let limit = Duration::from_millis(700);
    for fault in [
        Fault::Status(503),
        Fault::Reset,
        Fault::Slow(Duration::from_millis(100)),
        Fault::Late(Duration::from_secs(60)),
    ] {
        site.proxy.always(Some(fault.clone()));
        let begun = Instant::now();
        match problem(site.open_within(limit)) {
            Problem::Timeout(time, last) => {
                assert_eq!(time, limit);
                let expected = (fault == Fault::Status(503)).then_some(Problem::Status(503));
                assert!(
                    expected.is_none() || last.as_deref() == expected.as_ref(),
                    "{last:?}"
                );
            }
            other => panic!("{fault:?}: {other:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{fault:?}");
    }
}

#[test]
fn an_empty_file_and_a_missing_one_are_told_apart() {
    let Some(site) = Site::new(0) else {
        return;
    };
    assert_eq!(problem(site.open()), Problem::Empty);
    let missing = CLIENT.open(&site.nginx.http("b.bin"), &RemoteOptions::default());
    assert_eq!(problem(missing), Problem::NotFound);
}

#[test]
fn tls_needs_a_trusted_certificate() {
    let Some(site) = Site::new(100_000) else {
        return;
    };
    let url = site.nginx.https("a.bin");
    let own = RemoteOptions {
        ca_file: Some(site.nginx.ca_file().into()),
        ..RemoteOptions::default()
    };
    let remote = CLIENT.open(&url, &own).expect("trusted");
    site.same(&remote, 90_000, 10_000);
    let system = problem(CLIENT.open(&url, &RemoteOptions::default()));
    assert!(
        matches!(system, Problem::Certificate(_) | Problem::NoCertificates),
        "{system:?}"
    );
    // The certificate is not for this name.
    let other = url.replace("localhost", "127.0.0.1");
    let wrong = problem(CLIENT.open(&other, &own));
    assert!(matches!(wrong, Problem::Certificate(_)), "{wrong:?}");
}

#[test]
fn redirects_are_followed() {
    let Some(site) = Site::new(200_000) else {
        return;
    };
    let url = site.nginx.http("moved/a.bin");
    let remote = CLIENT
        .open(&url, &RemoteOptions::default())
        .expect("follows");
    site.same(&remote, 150_000, 10_000);
}

#[test]
fn an_address_without_a_server_is_reported_at_once() {
    let begun = Instant::now();
    // Port 1 of the loopback address: nothing listens there.
    let refused = CLIENT.open("http://127.0.0.1:1/a.db", &RemoteOptions::default());
    assert!(matches!(problem(refused), Problem::Connect(_)));
    let unknown = CLIENT.open(
        "http://no-such-host.invalid/a.db",
        &RemoteOptions::default(),
    );
    let unknown = problem(unknown);
    assert!(matches!(unknown, Problem::UnknownHost(_)), "{unknown:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}
