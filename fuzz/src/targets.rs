//! The targets by name, and targets that must fail. The latter show that the fuzzer notices
//! failures.

use densite_fuzz::{Target, all};
use densite_typed::fuzz::spoiled;

/// Fails if the third byte is 0x7B and the input has at most 32 bytes: soon, but not at once.
const CANARY: Target = Target {
    name: "canary",
    run: |bytes| {
        assert!(
            bytes.get(2) != Some(&0x7B) || bytes.len() > 32,
            "the canary fails"
        );
        bytes.len() as u64
    },
    repair: |_| {},
    fields: |_| vec![(0, 1), (2, 1)],
    seeds: || vec![("canary", b"a canary in a coal mine".to_vec())],
};

/// Fails by an allocation that is too large, which ends the process.
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

/// Fails because it does not return.
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

/// Fails by an error of the typed codec's encoder, which only the encoder's own check finds. It is
/// the target [`LIAR_TARGET`] while the encoder has such an error.
const LIAR: Target = Target {
    name: "liar",
    run: |bytes| match (bytes, liar_target()) {
        ([0x7B, rest @ ..], Some(target)) => spoiled(|| (target.run)(rest)),
        ([_, rest @ ..], Some(target)) => (target.run)(rest),
        _ => 0,
    },
    repair: |_| {},
    fields: |_| vec![(0, 1)],
    seeds: || {
        let seeds = liar_target().map_or(Vec::new(), |target| (target.seeds)());
        let add = |(name, bytes): (_, Vec<u8>)| (name, [&[0], bytes.as_slice()].concat());
        seeds.into_iter().map(add).collect()
    },
};

/// See [`LIAR`]. This target chooses among the codecs as the store does.
const LIAR_TARGET: &str = "page";

fn liar_target() -> Option<&'static Target> {
    densite_fuzz::find(LIAR_TARGET)
}

/// The target of this name, also one that must fail.
pub(crate) fn find(name: &str) -> Option<Target> {
    all()
        .chain(&[CANARY, GLUTTON, SLEEPER, LIAR])
        .find(|t| t.name == name)
        .copied()
}

/// The targets of these names. Without names, all targets that must not fail.
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
