//! A proxy for any protocol over TCP, whose connections a test cuts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// A running proxy, which ends with this value.
#[derive(Debug)]
pub struct CutProxy {
    shared: Arc<Shared>,
    port: u16,
}

#[derive(Debug)]
struct Shared {
    upstream: u16,
    open: Mutex<Vec<TcpStream>>,
    /// New connections end at once.
    is_away: AtomicBool,
    ends: AtomicBool,
}

impl CutProxy {
    /// Starts a proxy for the server at a loopback port.
    ///
    /// # Panics
    /// If there is no port.
    #[must_use]
    pub fn start(upstream: u16) -> CutProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            upstream,
            open: Mutex::default(),
            is_away: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if of_thread.ends.load(SeqCst) {
                    break;
                }
                // A broken connection is what the tests want.
                of_thread.serve(client).ok();
            }
        });
        CutProxy { shared, port }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections: bytes under way are lost.
    pub fn cut(&self) {
        for stream in self.shared.open().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// While the server is away, its connections are cut, and new ones end at once.
    pub fn set_away(&self, is_away: bool) {
        self.shared.is_away.store(is_away, SeqCst);
        if is_away {
            self.cut();
        }
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
        self.cut();
        // Wakes the thread, which then ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, client: TcpStream) -> std::io::Result<()> {
        if self.is_away.load(SeqCst) {
            return Ok(());
        }
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.upstream))?;
        self.open()
            .extend([client.try_clone()?, server.try_clone()?]);
        let pairs = [(client.try_clone()?, server.try_clone()?), (server, client)];
        for (from, to) in pairs {
            std::thread::spawn(move || pass(from, to));
        }
        Ok(())
    }
}

/// Passes bytes on until one side ends, and then ends both.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
