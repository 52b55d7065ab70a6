//! The status of shipping as JSON.

use super::shipping::Shipping;
use crate::replica::{Figures, time_text};
use serde_json::{Value, json};

/// The object of `densite_replicate` and of `densite_replica_status`.
pub(super) fn shipping(db: &str, shipping: &Shipping) -> Value {
    let figures = shipping.figures();
    let figures = figures.as_ref();
    let point = figures.and_then(Figures::point);
    let (requests, bytes) = figures.map_or((0, 0), Figures::sent);
    json!({
        "role": "shipper",
        "database": db,
        "replica": shipping.url().to_string_lossy(),
        "shipping": !shipping.is_ending(),
        "generation": point.map(|p| &p.generation),
        "restore_point": point.map(|p| p.n),
        "time": point.map(|p| time_text(p.time_ms)),
        "lag_seconds": figures.and_then(Figures::lag).map(|lag| lag.as_secs_f64()),
        "held_back": figures.is_some_and(Figures::is_held_back),
        "error": figures.and_then(Figures::failure),
        "failed": figures.is_some_and(Figures::is_final),
        "requests": requests,
        "bytes": bytes,
    })
}
