//! One request for a long range, whose bytes are handed on as they arrive.

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// How long an answer may take to begin, with all attempts.
const BEGIN: Duration = Duration::from_secs(300);
/// How long no byte of it may come.
const IDLE: Duration = Duration::from_secs(60);
/// So many pieces of up to 400 KiB wait for the reader. The connection holds back what comes then.
const WAITING: usize = 8;

/// What ends an answer early.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(object_store::Error),
    /// Nothing came for this time.
    Late(Duration),
}

impl From<object_store::Error> for Failure {
    fn from(e: object_store::Error) -> Failure {
        Failure::Store(e)
    }
}

/// An answer that is arriving.
pub(crate) struct Arriving(Receiver<std::result::Result<Vec<u8>, Failure>>);

impl Arriving {
    /// An answer, and the task that receives it.
    pub(crate) fn of(
        store: Arc<dyn ObjectStore>,
        path: Path,
        range: Range<u64>,
    ) -> (Arriving, impl Future<Output = ()> + Send + 'static) {
        let (send, arriving) = channel(WAITING);
        let task = async move {
            if let Err(e) = receive(&*store, &path, range, &send).await {
                // The reader can have given up.
                let _ = send.send(Err(e)).await;
            }
        };
        (Arriving(arriving), task)
    }

    /// The next bytes; `None` at the end of the answer.
    pub(crate) fn next(&mut self) -> Option<std::result::Result<Vec<u8>, Failure>> {
        self.0.blocking_recv()
    }
}

async fn receive(
    store: &dyn ObjectStore,
    path: &Path,
    range: Range<u64>,
    send: &Sender<std::result::Result<Vec<u8>, Failure>>,
) -> std::result::Result<(), Failure> {
    let options = GetOptions {
        range: Some(GetRange::Bounded(range)),
        ..GetOptions::default()
    };
    let answer = timeout(BEGIN, store.get_opts(path, options)).await;
    let mut body = answer.map_err(|_| Failure::Late(BEGIN))??.into_stream();
    loop {
        let next = timeout(IDLE, body.try_next()).await;
        let Some(bytes) = next.map_err(|_| Failure::Late(IDLE))?? else {
            return Ok(());
        };
        if send.send(Ok(bytes.into())).await.is_err() {
            return Ok(());
        }
    }
}
