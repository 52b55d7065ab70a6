//! What the threads of a member share with the worker.

use super::acknowledged::Acknowledged;
use super::incoming::Incoming;
use super::link::Link;
use super::outbox::Outbox;
use super::own_log::OwnLog;
use super::troubles::Troubles;
use std::sync::Arc;

/// See the module.
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) incoming: Arc<Incoming>,
    pub(crate) outbox: Outbox,
    pub(crate) troubles: Troubles,
    pub(crate) acknowledged: Acknowledged,
    pub(crate) own_log: OwnLog,
}
