//! Every decoder of Densite as a function of bytes, with valid inputs. The program `densite-fuzz`
//! runs them on mutants; tests run them on saved and generated inputs.
//!
//! A [`Target`] takes any bytes and panics if an invariant is broken. Each target states its own
//! invariants. All targets share these: no bytes cause a panic; no page is refused because its
//! decoded copy differs (`densite_typed::fuzz::be_loud` turns that into a panic); memory is
//! proportional to the input; the target ends soon. The program limits memory and time.

#![forbid(unsafe_code)]

mod mem;
mod message;
mod pickle;
mod piece;
mod sample;
mod sqlite;
mod store;
mod stream;
mod target;
mod typed;

pub use mem::MemFile;
pub use target::Target;

/// All targets.
pub fn all() -> impl Iterator<Item = &'static Target> {
    let others = [
        &pickle::PICKLE,
        &piece::PIECE,
        &message::MESSAGE,
        &stream::STREAM,
        &sqlite::SQLITE,
    ];
    store::TARGETS.iter().chain(typed::TARGETS).chain(others)
}

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    all().find(|target| target.name == name)
}
