//! Which process holds a lock, for messages.

/// The process that holds the `flock` lock of the file with this
/// [`identity`](crate::File::identity). `None` if it is unknown: only Linux reports it, and only
/// for processes that this process can see. The process may have ended by now.
#[must_use]
pub fn lock_holder(identity: (u64, u64)) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let (device, number) = identity;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let file = format!("{major:02x}:{minor:02x}:{number}");
        // 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF; a waiting process has an arrow before
        // FLOCK.
        let holder = |line: &str| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            match *fields.as_slice() {
                [_, "FLOCK", _, _, pid, of, ..] if of == file => pid.parse().ok(),
                _ => None,
            }
        };
        locks.lines().find_map(holder).filter(|pid| *pid > 0)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = identity;
        None
    }
}
