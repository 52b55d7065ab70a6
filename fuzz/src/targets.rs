//! The targets by name, and a canary: a target that must fail, so that a fuzzer that finds nothing is known to look.

use crate::pickle::PICKLE;
use densite_store::fuzz::{TARGETS, Target, spoiled};

/// Fails when the third byte is 0x7B and there are no more than 32: soon, but not at the first try.
const CANARY: Target = Target {
    name: "canary",
    run: |bytes| {
        assert!(
            bytes.get(2) != Some(&0x7B) || bytes.len() > 32,
            "the canary sang"
        );
        bytes.len() as u64
    },
    repair: |_| {},
    fields: |_| vec![(0, 1), (2, 1)],
    seeds: || vec![("canary", b"a canary in a coal mine".to_vec())],
};

/// Fails by allocating what no small input needs; the process that does it is gone.
const GLUTTON: Target = Target {
    name: "glutton",
    run: |bytes| {
        if bytes.first() == Some(&0x7B) {
            vec![1u8; 8 << 30].len() as u64
        } else {
            0
        }
    },
    repair: |_| {},
    fields: |_| vec![(0, 1)],
    seeds: || vec![("glutton", b"a glutton".to_vec())],
};

/// Fails by not coming back.
const SLEEPER: Target = Target {
    name: "sleeper",
    run: |bytes| {
        while bytes.first() == Some(&0x7B) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        0
    },
    repair: |_| {},
    fields: |_| vec![(0, 1)],
    seeds: || vec![("sleeper", b"a sleeper".to_vec())],
};

/// Fails if the typed codec's encoder makes an error that only its own look at the result finds: as the target [`LIED_TO`], while it makes one.
const LIAR: Target = Target {
    name: "liar",
    run: |bytes| match (bytes, lied_to()) {
        ([0x7B, rest @ ..], Some(target)) => spoiled(|| (target.run)(rest)),
        ([_, rest @ ..], Some(target)) => (target.run)(rest),
        _ => 0,
    },
    repair: |_| {},
    fields: |_| vec![(0, 1)],
    seeds: || {
        let seeds = lied_to().map_or(Vec::new(), |target| (target.seeds)());
        let add = |(name, bytes): (_, Vec<u8>)| (name, [&[0], bytes.as_slice()].concat());
        seeds.into_iter().map(add).collect()
    },
};

/// See [`LIAR`]: the store's choice among the codecs.
const LIED_TO: &str = "page";

fn lied_to() -> Option<&'static Target> {
    densite_store::fuzz::target(LIED_TO)
}

/// All targets that must not fail.
pub(crate) fn all() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().chain(&[PICKLE])
}

/// The target of a name; those that must fail are found only by name.
pub(crate) fn find(name: &str) -> Option<Target> {
    all()
        .chain(&[CANARY, GLUTTON, SLEEPER, LIAR])
        .find(|t| t.name == name)
        .copied()
}

/// The targets of these names; without any, all that must not fail.
pub(crate) fn named(names: &[String]) -> Result<Vec<Target>, String> {
    if names.is_empty() {
        return Ok(all().copied().collect());
    }
    let unknown = |name: &String| {
        let known: Vec<&str> = all().map(|t| t.name).collect();
        format!("there is no target {name}; there are {}", known.join(", "))
    };
    names
        .iter()
        .map(|n| find(n).ok_or_else(|| unknown(n)))
        .collect()
}
