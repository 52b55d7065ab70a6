//! The real disk and the simulated one keep the same contract.

use densite_disk::{Dir, File, OpenMode, RealDir};
use densite_sim_disk::SimDisk;

#[test]
fn locks_belong_to_handles() {
    use densite_disk::LockKind::{Exclusive, Shared};
    let tmp = tempfile::tempdir().expect("a directory");
    let sim = SimDisk::new(1);
    let real: Box<dyn Dir> = Box::new(RealDir::new(tmp.path()));
    for dir in [real, Box::new(sim.root())] {
        let open = || dir.open("l", OpenMode::Create).expect("open");
        let (a, b, c) = (open(), open(), open());
        assert!(a.try_lock(Shared).expect("lock"));
        assert!(b.try_lock(Shared).expect("lock"));
        assert!(!c.try_lock(Exclusive).expect("lock"));
        a.unlock().expect("unlock");
        assert!(!c.try_lock(Exclusive).expect("lock"));
        drop(b);
        assert!(c.try_lock(Exclusive).expect("lock"));
        assert!(!a.try_lock(Shared).expect("lock"));
        c.unlock().expect("unlock");
        assert!(a.try_lock(Exclusive).expect("lock"));
    }
}

#[test]
fn identity_distinguishes_files_that_had_one_name() {
    let tmp = tempfile::tempdir().expect("a directory");
    let sim = SimDisk::new(1);
    let real: Box<dyn Dir> = Box::new(RealDir::new(tmp.path()));
    for dir in [real, Box::new(sim.root())] {
        let open = || dir.open("l", OpenMode::Create).expect("open");
        let (a, b) = (open(), open());
        let of = |f: &dyn File| f.identity().expect("identity");
        assert_eq!(of(a.as_ref()), of(b.as_ref()));
        dir.rename("l", "m").expect("renamed");
        assert_ne!(of(a.as_ref()), of(open().as_ref()));
        let renamed = dir.open("m", OpenMode::Read).expect("open");
        assert_eq!(of(a.as_ref()), of(renamed.as_ref()));
    }
}
