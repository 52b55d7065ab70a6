//! The name of a new member.

use super::Joining;
use super::begun::Begun;
use crate::member::tables::of_stream;
use densite_ingest::parts::refused;
use densite_sqlite::{Error, Result};
use densite_stream::Name;

impl Joining<'_> {
    /// A name that no member has, or that of an earlier attempt of this database.
    pub(super) fn origin(&self, begun: Option<&Begun>) -> Result<Name> {
        let origin: Name = match (&self.options.origin, begun) {
            (Some(name), _) => name.parse().map_err(of_stream)?,
            (None, Some(begun)) => begun.origin.clone(),
            (None, None) => free_name()?,
        };
        if let Some(begun) = begun {
            if begun.origin == origin {
                return Ok(origin);
            }
            let has_begun = self.stream.last_of(&begun.origin).map_err(of_stream)?;
            if has_begun.is_some() {
                return Err(refused(format!(
                    "{}: an earlier attempt to join, which did not end, has the name {} in the stream: join with --origin {}",
                    self.file.path, begun.origin, begun.origin
                )));
            }
        }
        let taken = self.stream.last_of(&origin).map_err(of_stream)?;
        match taken {
            Some(_) => Err(self.taken(&origin)),
            None => Ok(origin),
        }
    }

    /// The error for a name that another database has.
    pub(super) fn taken(&self, origin: &Name) -> Error {
        refused(format!(
            "{}: the stream has a member with the name {origin}; choose another one (--origin). If {origin} is a database whose `densite join` failed, run that again; if that database is gone, run `densite leave FILE --member {origin}` on a member, and its name no longer holds old messages",
            self.file.path
        ))
    }
}

/// A name that no other member has: that of the machine, and some random letters.
fn free_name() -> Result<Name> {
    let mut random = [0; 4];
    densite_disk::random::random_bytes(&mut random).map_err(|e| refused(e.to_string()))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = (host.trim().chars())
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let host = if host.is_empty() { "member" } else { &host };
    let random = u32::from_le_bytes(random);
    format!("{host}-{random:08x}").parse().map_err(of_stream)
}
