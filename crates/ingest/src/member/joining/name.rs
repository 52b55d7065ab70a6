//! The name of a new member.

use super::Joining;
use crate::error::refused;
use crate::member::tables::of_stream;
use densite_sqlite::Result;
use densite_stream::Name;

impl Joining<'_> {
    /// A name that no member has.
    pub(super) fn free_origin(&self) -> Result<Name> {
        let origin: Name = match &self.options.origin {
            Some(name) => name.parse().map_err(of_stream)?,
            None => free_name()?,
        };
        let taken = self.stream.last_of(&origin).map_err(of_stream)?;
        if taken.is_some() {
            return Err(refused(format!(
                "the stream has a member with the name {origin}; choose another one"
            )));
        }
        Ok(origin)
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
