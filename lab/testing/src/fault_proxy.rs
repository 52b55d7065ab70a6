//! A proxy in front of a web server that counts requests and answers some of them wrongly.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a slow line carries between two pauses.
const SLOW_PART: usize = 16 << 10;

/// How one request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// With this status and no body.
    Status(u16),
    /// The connection ends without an answer.
    Reset,
    /// The body ends in the middle.
    Cut,
    /// The server gets no Range, and sends all.
    NoRange,
    /// The server gets this range instead.
    OtherRange(&'static str),
    /// A header of the answer is this.
    Header(&'static str, &'static str),
    /// These headers are taken from the answer.
    Without(&'static [&'static str]),
    /// The body comes one byte at a time, with this pause.
    Slow(Duration),
    /// The answer comes after this time.
    Late(Duration),
    /// As [`Fault::Status`], after this time.
    LateStatus(Duration, u16),
    /// As on a line with a delay for each request, and so many bytes in a second.
    Line {
        /// The delay.
        delay: Duration,
        /// Bytes in a second.
        rate: u64,
    },
}

#[derive(Debug)]
struct Shared {
    upstream: u16,
    faults: Mutex<VecDeque<Fault>>,
    always: Mutex<Option<Fault>>,
    requests: AtomicU64,
    bytes: AtomicU64,
    ends: AtomicBool,
}

/// A running proxy, which ends with this value.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    port: u16,
}

impl FaultProxy {
    /// Starts a proxy for the server at a loopback port.
    ///
    /// # Panics
    /// If there is no port.
    #[must_use]
    pub fn start(upstream: u16) -> FaultProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            upstream,
            faults: Mutex::default(),
            always: Mutex::default(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        });
        let of_thread = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if of_thread.ends.load(SeqCst) {
                    break;
                }
                let shared = of_thread.clone();
                // A broken connection is what some tests want.
                std::thread::spawn(move || shared.serve(&client).ok());
            }
        });
        FaultProxy { shared, port }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file's URL.
    #[must_use]
    pub fn http(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// Answers the next requests so, in this order, and those after them rightly.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        let mut next = lock(&self.shared.faults);
        next.clear();
        next.extend(faults);
    }

    /// Answers all requests so that no single fault is for.
    pub fn always(&self, fault: Option<Fault>) {
        *lock(&self.shared.always) = fault;
    }

    /// Requests since the last call of [`FaultProxy::take_counts`].
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(SeqCst)
    }

    /// Requests and bytes of bodies since the last call.
    #[must_use]
    pub fn take_counts(&self) -> (u64, u64) {
        let shared = &self.shared;
        (
            shared.requests.swap(0, SeqCst),
            shared.bytes.swap(0, SeqCst),
        )
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
        // Wakes the thread, which then ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Answers one request. The connection ends with it.
    fn serve(&self, client: &TcpStream) -> std::io::Result<()> {
        let mut from = BufReader::new(client);
        let mut head = read_head(&mut from)?;
        if head.is_empty() {
            return Ok(());
        }
        let mut sent = vec![0; body_len(&head)];
        from.read_exact(&mut sent)?;
        self.requests.fetch_add(1, SeqCst);
        let fault = lock(&self.faults).pop_front();
        let fault = fault.or_else(|| lock(&self.always).clone());
        let mut client = client;
        match &fault {
            Some(Fault::Reset) => return client.shutdown(Shutdown::Both),
            Some(Fault::Status(status) | Fault::LateStatus(_, status)) => {
                if let Some(Fault::LateStatus(time, _)) = fault {
                    std::thread::sleep(time);
                }
                return write!(
                    client,
                    "HTTP/1.1 {status} Fault\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
            Some(Fault::Late(time) | Fault::Line { delay: time, .. }) => std::thread::sleep(*time),
            Some(Fault::NoRange) => remove(&mut head, "range"),
            Some(Fault::OtherRange(range)) => {
                remove(&mut head, "range");
                head.push(format!("Range: {range}"));
            }
            _ => {}
        }
        remove(&mut head, "connection");
        head.push("Connection: close".into());
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.upstream))?;
        send_head(&server, &head)?;
        (&server).write_all(&sent)?;
        let mut server = BufReader::new(server);
        let mut head = read_head(&mut server)?;
        let mut body = Vec::new();
        server.read_to_end(&mut body)?;
        match &fault {
            Some(Fault::Header(name, value)) => {
                remove(&mut head, &name.to_ascii_lowercase());
                head.push(format!("{name}: {value}"));
            }
            Some(Fault::Without(names)) => names.iter().for_each(|name| remove(&mut head, name)),
            _ => {}
        }
        send_head(client, &head)?;
        match &fault {
            Some(Fault::Cut) => body.truncate(body.len() / 2),
            Some(Fault::Slow(pause)) => {
                for byte in &body {
                    client.write_all(std::slice::from_ref(byte))?;
                    std::thread::sleep(*pause);
                }
                body.clear();
            }
            Some(Fault::Line { rate, .. }) => {
                return send_slowly(client, &body, *rate, &self.bytes);
            }
            _ => {}
        }
        self.bytes.fetch_add(body.len() as u64, SeqCst);
        client.write_all(&body)
    }
}

/// The length of the body that follows a head.
fn body_len(head: &[String]) -> usize {
    let fields = head.iter().filter_map(|line| line.split_once(':'));
    let len = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .find_map(|(_, value)| value.trim().parse().ok());
    len.unwrap_or(0)
}

/// The lines of a head, without the empty one at its end.
fn read_head(from: &mut impl BufRead) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(lines);
        }
        lines.push(line.to_owned());
    }
}

fn send_head(mut to: &TcpStream, lines: &[String]) -> std::io::Result<()> {
    to.write_all((lines.join("\r\n") + "\r\n\r\n").as_bytes())
}

/// Sends bytes no faster than so many in a second, and counts those that were sent.
fn send_slowly(
    mut to: &TcpStream,
    bytes: &[u8],
    rate: u64,
    count: &AtomicU64,
) -> std::io::Result<()> {
    let begin = Instant::now();
    let mut sent = 0;
    for part in bytes.chunks(SLOW_PART) {
        to.write_all(part)?;
        count.fetch_add(part.len() as u64, SeqCst);
        sent += part.len() as u64;
        let due = Duration::from_micros(sent * 1_000_000 / rate.max(1));
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    }
    Ok(())
}

/// Removes a header; `name` is in small letters.
fn remove(head: &mut Vec<String>, name: &str) {
    head.retain(|line| {
        let found = line
            .split_once(':')
            .map(|(found, _)| found.to_ascii_lowercase());
        found.is_none_or(|found| found != name)
    });
}
