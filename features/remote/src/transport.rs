//! What sends the requests of a process.

use crate::thread::Thread;
use crate::web::WebClients;

/// The thread for requests, and the HTTP clients.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    pub(crate) thread: Thread,
    pub(crate) web: WebClients,
}
