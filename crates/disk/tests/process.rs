//! `process::id` is right in every process, whichever call made it.

use densite_disk::process::id;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    #[cfg(target_os = "linux")]
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
}

/// Returns 0 if the child and its descendants get their own numbers.
fn in_child(generations: u32) -> i32 {
    if id() != std::process::id() || id() != std::process::id() {
        return 1;
    }
    match generations {
        0 => 0,
        // SAFETY: the child only runs what `ends_well` runs.
        _ => i32::from(!ends_well(unsafe { fork() }, generations - 1)),
    }
}

fn ends_well(pid: i32, generations: u32) -> bool {
    assert!(pid >= 0, "no child");
    if pid == 0 {
        // SAFETY: ends the child at once.
        unsafe { _exit(in_child(generations)) };
    }
    let mut status = -1;
    // SAFETY: the child was just made, and `status` is writable.
    let ended = unsafe { waitpid(pid, &raw mut status, 0) };
    ended == pid && status == 0
}

#[test]
fn each_process_has_its_own() {
    assert_eq!(id(), std::process::id());
    // SAFETY: as above.
    assert!(ends_well(unsafe { fork() }, 2));
    assert_eq!(id(), std::process::id());
    #[cfg(target_os = "linux")]
    {
        const SIGCHLD: std::ffi::c_long = 17;
        // SAFETY: makes a child as fork does, without running fork handlers: `clone` with this
        // signal and a copy of its parent's stack. Its other arguments are 0, so their order does
        // not matter.
        let pid = unsafe { syscall(clone_number(), SIGCHLD, 0usize, 0usize, 0usize, 0usize) };
        assert!(ends_well(pid as i32, 1));
    }
}

#[cfg(target_os = "linux")]
const fn clone_number() -> std::ffi::c_long {
    if cfg!(target_arch = "x86_64") {
        56
    } else {
        // All newer architectures.
        220
    }
}
