//! Live, dead, free and unallocated bytes and the gain of a vacuum, for `info` and `vacuum`.

use crate::out;
use densite_tools::Gain;

/// Lines of name and value.
pub(crate) fn lines(gain: &Gain, stored: bool) -> Vec<(&'static str, String)> {
    let about = if gain.estimated { "about " } else { "" };
    let where_ = if stored {
        " in pages, not stored"
    } else {
        " in pages"
    };
    let mut lines = vec![("live", out::bytes(gain.live_bytes))];
    if stored {
        lines.push(("dead", out::bytes(gain.dead_bytes)));
    }
    lines.push(("free", out::bytes(gain.free_bytes)));
    lines.push((
        "unallocated",
        format!("{about}{}{where_}", out::bytes(gain.unallocated_bytes)),
    ));
    if stored {
        lines.push(("maintenance reclaims", maintenance(gain)));
    }
    lines.push(("a vacuum reclaims", sentence(gain)));
    lines
}

/// The gain of maintenance, in words.
fn maintenance(gain: &Gain) -> String {
    let file = gain.vacuumed_bytes + gain.reclaimable_bytes;
    match file.saturating_sub(gain.maintained_bytes) {
        0 => "nothing".to_string(),
        bytes => format!(
            "about {}, when the database is idle or after PRAGMA densite_maintain",
            indicatif::BinaryBytes(bytes)
        ),
    }
}

/// The gain and the needs of a vacuum, in words.
pub(crate) fn sentence(gain: &Gain) -> String {
    format!(
        "about {} of {}; it needs up to {} beside the file, and about {}",
        indicatif::BinaryBytes(gain.reclaimable_bytes),
        indicatif::BinaryBytes(gain.vacuumed_bytes + gain.reclaimable_bytes),
        indicatif::BinaryBytes(gain.needed_bytes),
        time(gain.seconds),
    )
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "a second".to_string(),
        s if s < 90.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}
