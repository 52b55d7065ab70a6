//! Streams on a real server of NATS.

use crate::contract::{Place, contract};
use crate::members::{
    STREAM, append_numbers, append_once, check_numbers, name, open as open_place, open_nats,
    options, read_all, take,
};
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use densite_stream::{Error, JetStream, JetStreamOptions, Message, Result, Stream, SyncInterval};
use densite_testing::Nats;
use futures_util::StreamExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server with a directory of its own.
struct Server {
    nats: Mutex<Nats>,
    own: TempDir,
}

impl Server {
    fn start(settings: &str) -> Option<Server> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats-server");
        let own = tempfile::tempdir().expect("a directory");
        let nats = Mutex::new(Nats::start(&dir, own.path(), settings)?);
        Some(Server { nats, own })
    }

    fn at(&self) -> String {
        let nats = self.nats.lock().expect("the server");
        format!("{}|{}", nats.url(), nats.monitor())
    }

    /// What an operator does, with a client of NATS.
    fn administer<F: Future<Output = ()>>(&self, task: impl FnOnce(Context) -> F) {
        let url = self.nats.lock().expect("the server").url();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let client = async_nats::connect(url).await.expect("a connection");
            task(jetstream::new(client)).await;
        });
    }
}

impl Place for Server {
    fn name(&self) -> String {
        format!("nats={}", self.at())
    }

    fn remove(&self) {
        self.administer(|context| async move {
            context.delete_stream(STREAM).await.expect("removed");
        });
    }

    fn kill(&self) {
        let mut nats = self.nats.lock().expect("the server");
        nats.kill();
        nats.restart();
    }

    fn copy(&self) {
        let mut nats = self.nats.lock().expect("the server");
        nats.kill();
        copy(&nats.store(), &self.own.path().join("copy"));
        nats.restart();
    }

    fn put_back(&self) {
        let mut nats = self.nats.lock().expect("the server");
        nats.kill();
        std::fs::remove_dir_all(nats.store()).expect("removed");
        copy(&self.own.path().join("copy"), &nats.store());
        nats.restart();
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(done.expect("cp").success());
}

fn place() -> Option<Server> {
    Server::start("")
}

contract!(place);

#[test]
fn a_stream_that_loses_messages_is_refused() {
    let Some(server) = place() else { return };
    let config = |subject: &str| Config {
        name: STREAM.into(),
        subjects: vec![subject.into()],
        ..Config::default()
    };
    let old = Config {
        max_age: Duration::from_secs(3600),
        ..config("densite.app.*")
    };
    for (word, config) in [("subjects", config("densite.other.*")), ("age", old)] {
        server.administer(|context| async move {
            context.create_stream(config).await.expect("made");
        });
        match open_nats(&server.at()).map(drop) {
            Err(Error::Refused(said)) => assert!(said.contains(word), "{word}: {said}"),
            other => panic!("{word}: {other:?}"),
        }
        server.remove();
    }
}

#[test]
fn a_full_stream_can_be_tried_again() {
    let Some(server) = place() else { return };
    server.administer(|context| async move {
        let config = Config {
            name: STREAM.into(),
            subjects: vec!["densite.app.*".into()],
            discard: jetstream::stream::DiscardPolicy::New,
            max_bytes: 10_000,
            ..Config::default()
        };
        context.create_stream(config).await.expect("made");
    });
    let stream = open_place(&server.name());
    assert_eq!(stream.append(&name("a"), 0, &[1; 6000]), Ok(1));
    match stream.append(&name("a"), 1, &[2; 6000]) {
        Err(Error::TryAgain(said)) => assert!(said.contains("maximum bytes"), "{said}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(read_all(&*stream, 1).len(), 1);
}

/// As for one that a member makes without another wish.
#[test]
fn a_stream_that_cannot_be_trimmed_says_so() {
    let Some(server) = place() else { return };
    let wanted = JetStreamOptions {
        can_be_trimmed: false,
        ..options(&server.at())
    };
    let stream = JetStream::open(wanted, &name("app")).expect("a stream");
    append_numbers(&stream, &name("a"), 3);
    match stream.trim(2, &[name("a")]) {
        Err(Error::Refused(said)) => assert!(said.contains("purge"), "{said}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(read_all(&stream, 3).len(), 3);
}

#[test]
fn a_sync_every_two_minutes_is_seen() {
    let Some(server) = place() else { return };
    let own = server.own.path().join("nats.conf");
    let text = std::fs::read_to_string(&own).expect("the configuration");
    let text = text.replace("sync_interval: always", "sync_interval: \"2m\"");
    std::fs::write(&own, text).expect("the configuration");
    server.kill();
    let durability = open_nats(&server.at()).expect("a stream").durability();
    let durability = durability.expect("known");
    let two = SyncInterval::Every(Duration::from_secs(120));
    assert_eq!(durability.sync, two);
    assert!(!durability.survives_a_power_cut());
    let unseen = JetStreamOptions {
        monitors: Vec::new(),
        ..options(&server.at())
    };
    let unseen = JetStream::open(unseen, &name("app")).expect("a stream");
    let unseen = unseen.durability().expect("known");
    assert_eq!(unseen.sync, SyncInterval::Unknown);
}

#[test]
fn a_server_that_is_away_can_be_tried_again() {
    let Some(server) = place() else { return };
    let stream = open_place(&server.name());
    append_numbers(&*stream, &name("a"), 1);
    server.nats.lock().expect("the server").kill();
    let away = [
        stream.append(&name("a"), 1, b"x").map(drop),
        stream.extent().map(drop),
        open_nats(&server.at()).map(drop),
    ];
    for away in away {
        assert!(matches!(away, Err(Error::TryAgain(_))), "{away:?}");
    }
    server.nats.lock().expect("the server").restart();
    // The client can have sent the message that it kept.
    let begun = Instant::now();
    loop {
        match stream.append(&name("a"), 1, b"x") {
            Ok(2) | Err(Error::Conflict { found: 2, .. }) => break,
            Err(Error::TryAgain(_)) if begun.elapsed() < Duration::from_secs(20) => {}
            other => panic!("{other:?}"),
        }
    }
    let read = read_all(&*stream, 2);
    assert_eq!((read.len(), read[1].bytes.as_slice()), (2, &b"x"[..]));
}

#[test]
fn a_server_without_jetstream_is_refused() {
    let Some(server) = place() else { return };
    let own = server.own.path().join("nats.conf");
    let text = std::fs::read_to_string(&own).expect("the configuration");
    let (before, _) = text.split_once("jetstream").expect("its settings");
    std::fs::write(&own, before).expect("the configuration");
    server.kill();
    match open_nats(&server.at()).map(drop) {
        Err(Error::Refused(said)) => assert!(said.contains("-js"), "{said}"),
        other => panic!("{other:?}"),
    }
}

/// Makes a key and a certificate for `localhost`; `None` without openssl.
fn certificate(dir: &Path) -> Option<()> {
    let done = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-keyout", "key.pem"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:false"])
        .args(["-out", "cert.pem"])
        .current_dir(dir)
        .output();
    if !done.is_ok_and(|done| done.status.success()) {
        densite_testing::skip("there is no openssl for a server with TLS");
        return None;
    }
    Some(())
}

#[test]
fn users_and_certificates_are_judged() {
    let keys = tempfile::tempdir().expect("a directory");
    let Some(()) = certificate(keys.path()) else {
        return;
    };
    let file = |name: &str| keys.path().join(name);
    let settings = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}\nauthorization {{ user: u, password: secret }}",
        file("cert.pem"),
        file("key.pem")
    );
    let Some(server) = Server::start(&settings) else {
        return;
    };
    let fine = JetStreamOptions {
        user: Some(("u".into(), "secret".into())),
        ca_file: Some(file("cert.pem")),
        ..options(&server.at())
    };
    let open = |options| JetStream::open(options, &name("app"));
    let stream = open(fine.clone()).expect("a stream");
    append_numbers(&stream, &name("a"), 3);
    assert_eq!(read_all(&stream, 3).len(), 3);
    let in_address = JetStreamOptions {
        user: None,
        servers: vec![fine.servers[0].replace("nats://", "nats://u:secret@")],
        ..fine.clone()
    };
    open(in_address).expect("a stream");
    let stranger = JetStreamOptions {
        user: Some(("u".into(), "guess".into())),
        ..fine.clone()
    };
    let found = open(stranger).map(drop);
    assert!(matches!(found, Err(Error::Refused(_))), "{found:?}");
    let untrusted = JetStreamOptions {
        ca_file: None,
        ..fine
    };
    match open(untrusted).map(drop) {
        Err(Error::TryAgain(said) | Error::Refused(said)) => {
            assert!(said.contains("certificate"), "{said}");
        }
        other => panic!("{other:?}"),
    }
}

/// Three servers of one cluster, each with a directory of its own.
fn cluster() -> Option<Vec<Server>> {
    let listener = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listeners = [listener(), listener(), listener()];
    let routes: Vec<u16> = listeners
        .iter()
        .map(|l| l.local_addr().expect("an address").port())
        .collect();
    drop(listeners);
    let all: Vec<String> = routes
        .iter()
        .map(|port| format!("nats://127.0.0.1:{port}"))
        .collect();
    let start = |(number, port): (usize, &u16)| {
        Server::start(&format!(
            "server_name: s{number}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", \
             routes: {all:?} }}"
        ))
    };
    routes.iter().enumerate().map(start).collect()
}

/// Opens a stream of a cluster through these servers, as soon as the cluster has a leader.
fn open_in(servers: &[&Server], replicas: usize) -> JetStream {
    let addresses: Vec<String> = servers.iter().map(|server| server.at()).collect();
    let pairs = addresses.iter().map(|at| at.split_once('|').expect("two"));
    let (urls, monitors) = pairs.map(|(a, b)| (a.into(), b.into())).unzip();
    let wanted = JetStreamOptions {
        servers: urls,
        monitors,
        replicas,
        ..options(&addresses[0])
    };
    let begun = Instant::now();
    loop {
        match JetStream::open(wanted.clone(), &name("app")) {
            Ok(stream) => return stream,
            Err(Error::TryAgain(_)) if begun.elapsed() < Duration::from_secs(40) => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn three_servers_lose_nothing_when_one_after_the_other_is_killed() {
    let Some(servers) = cluster() else { return };
    let all: Vec<&Server> = servers.iter().collect();
    let (writer, reader) = (open_in(&all, 3), open_in(&all, 3));
    assert_eq!(writer.identity(), reader.identity());
    let durability = writer.durability().expect("known");
    assert_eq!(
        (durability.replicas, durability.sync),
        (3, SyncInterval::Always)
    );
    let count = 600;
    let a = name("a");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| append_numbers(&writer, &a, count));
        let reading = scope.spawn(|| read_all(&reader, count));
        for server in &servers {
            std::thread::sleep(Duration::from_millis(300));
            server.kill();
        }
        writing.join().expect("the writer");
        let read = reading.join().expect("the reader");
        assert_eq!(check_numbers(&read, &a), count);
    });
}

/// The server of the stream or of its only consumer, by its place in the cluster.
fn leader(servers: &[Server], of_consumer: bool) -> usize {
    let (send, leader) = std::sync::mpsc::channel();
    servers[0].administer(|context| async move {
        let stream = context.get_stream(STREAM).await.expect("the stream");
        let cluster = match of_consumer {
            false => stream.cached_info().cluster.clone(),
            true => {
                let consumer = stream.consumers().next().await;
                consumer.expect("a consumer").expect("its state").cluster
            }
        };
        let leader = cluster.expect("a cluster").leader.expect("a leader");
        send.send(leader).expect("sent");
    });
    let leader = leader.recv().expect("a leader");
    leader[1..].parse().expect("a number")
}

/// A reader that is connected to another server than the one with the stream, after three messages.
fn reader_beside(servers: &[Server]) -> (usize, JetStream, Vec<Message>) {
    let all: Vec<&Server> = servers.iter().collect();
    append_numbers(&open_in(&all, 1), &name("a"), 3);
    let place = leader(servers, false);
    let reader = open_in(&[&servers[(place + 1) % 3]], 1);
    let read = read_all(&reader, 3);
    assert_eq!(
        leader(servers, true),
        place,
        "a consumer is where its stream is"
    );
    (place, reader, read)
}

fn next(reader: &JetStream, after: &Message) -> Result<Vec<Message>> {
    let begun = Instant::now();
    loop {
        match reader.read_after(after.position(), take(Duration::from_secs(1))) {
            Err(Error::TryAgain(_)) => {}
            Ok(found) if found.is_empty() => {}
            found => return found,
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing comes");
    }
}

#[test]
fn a_reader_goes_on_after_a_restart_that_its_connection_does_not_notice() {
    let Some(servers) = cluster() else { return };
    let (place, reader, read) = reader_beside(&servers);
    servers[place].kill();
    append_once(&open_in(&[&servers[place]], 1), &name("b"), 0, b"x");
    let found = next(&reader, &read[2]).expect("read");
    assert_eq!(found[0].bytes, b"x");
}

#[test]
fn an_older_copy_is_noticed_through_another_server() {
    let Some(servers) = cluster() else { return };
    let (place, reader, read) = reader_beside(&servers);
    servers[place].copy();
    let writer = open_in(&[&servers[place]], 1);
    append_once(&writer, &name("b"), 0, b"lost");
    let lost = next(&reader, &read[2]).expect("read");
    servers[place].put_back();
    let writer = open_in(&[&servers[place]], 1);
    append_once(&writer, &name("c"), 0, b"other");
    append_once(&writer, &name("d"), 0, b"more");
    match next(&reader, &lost[0]) {
        Err(Error::Diverged { sequence: 4, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// A member that stopped asks again and again. A stream can have only so many consumers.
#[test]
fn a_reader_that_is_refused_leaves_no_consumers() {
    let Some(server) = place() else { return };
    let writer = open_nats(&server.at()).expect("a stream");
    append_numbers(&writer, &name("a"), 3);
    let read = read_all(&writer, 3);
    let mut elsewhere = read[1].position();
    elsewhere.sequence = 3;
    let reader = open_nats(&server.at()).expect("a stream");
    for _ in 0..20 {
        match reader.read_after(elsewhere, take(Duration::from_millis(50))) {
            Err(Error::Diverged { sequence: 3, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    // A reader that goes elsewhere, too.
    for message in read.iter().cycle().take(20) {
        let found = reader.read_after(message.position(), take(Duration::from_millis(50)));
        found.expect("read");
    }
    let (send, count) = std::sync::mpsc::channel();
    server.administer(|context| async move {
        let stream = context.get_stream(STREAM).await.expect("the stream");
        send.send(stream.cached_info().state.consumer_count)
            .expect("sent");
    });
    // One of each reader, and one that is being removed.
    let count = count.recv().expect("counted");
    assert!(count <= 3, "{count} consumers");
}

/// The subjects of a stream end with any word.
#[test]
fn a_message_without_a_valid_origin_has_no_contents() {
    let Some(server) = place() else { return };
    let stream = open_nats(&server.at()).expect("a stream");
    append_numbers(&stream, &name("a"), 1);
    server.administer(|context| async move {
        let sent = context.publish("densite.app.a$b", "x".into()).await;
        sent.expect("sent").await.expect("acknowledged");
    });
    append_numbers(&stream, &name("b"), 1);
    let found = read_all(&stream, 3);
    assert!(found[1].bytes.is_empty(), "{found:?}");
    assert_eq!(stream.message(2).expect("read").as_ref(), Some(&found[1]));
    // A reader begins behind it.
    let other = open_nats(&server.at()).expect("a stream");
    let take = densite_stream::Take {
        messages: 9,
        bytes: 1 << 20,
        wait: Duration::from_secs(5),
    };
    let found = other.read_after(found[1].position(), take).expect("read");
    assert_eq!(found[0].origin, name("b"));
    stream.trim(3, &[name("b")]).expect("removed");
}
