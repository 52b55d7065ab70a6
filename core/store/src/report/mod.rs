//! Reports about a stored file: figures, frames, and whether everything in it is undamaged.

mod check_report;
mod first;
mod frames;
mod space;
mod stats;
mod verify_checksums;
mod walk;

pub use check_report::CheckReport;
pub(crate) use check_report::check;
pub(crate) use first::first_places;
pub use frames::FrameInfo;
pub(crate) use frames::{each_frame, model_description};
pub use space::SpaceFigures;
pub(crate) use space::{live_by_unit, space};
pub use stats::Stats;
pub(crate) use stats::stats;
pub(crate) use verify_checksums::check_stored;
