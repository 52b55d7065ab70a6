//! Streams of other kinds, which tests add by the scheme of their addresses.
//!
//! Only the feature `testing` compiles this module, so no production build has it.

use crate::{Result, Stream};
use densite_disk::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens a stream by its address without the scheme. The second argument says whether to make it if
/// it is missing.
pub type OpensStream = fn(&str, bool) -> Result<Arc<dyn Stream>>;

static ADDED: Mutex<BTreeMap<&str, OpensStream>> = Mutex::new(BTreeMap::new());

/// From now on, this process opens addresses with this scheme so.
pub fn add_scheme(scheme: &'static str, opens: OpensStream) {
    ADDED.lock().insert(scheme, opens);
}

/// How streams with this scheme are opened; `None` if no test has added it.
pub(crate) fn added(scheme: &str) -> Option<OpensStream> {
    ADDED.lock().get(scheme).copied()
}
