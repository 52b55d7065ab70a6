//! The process's number is right in every process, however it was made.

use densite_disk::process::id;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    #[cfg(target_os = "linux")]
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
}

/// Whether the child, and a child of its, know their own numbers: 0 if so.
fn in_child(generations: u32) -> i32 {
    if id() != std::process::id() || id() != std::process::id() {
        return 1;
    }
    match generations {
        0 => 0,
        // SAFETY: the child runs what `ends_well` says and nothing else.
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
    // SAFETY: a child that was just made, and a place for the status.
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
        // SAFETY: a child as by fork, but no handler of a fork runs: `clone` with this signal and its parent's stack, copied. Its arguments are 0 in any order.
        let pid = unsafe { syscall(clone_number(), SIGCHLD, 0usize, 0usize, 0usize, 0usize) };
        assert!(ends_well(pid as i32, 1));
    }
}

#[cfg(target_os = "linux")]
const fn clone_number() -> std::ffi::c_long {
    if cfg!(target_arch = "x86_64") {
        56
    } else {
        // All younger architectures.
        220
    }
}
