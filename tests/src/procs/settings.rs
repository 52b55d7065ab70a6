//! What the environment says about a run.

/// The seed of a random test: `DENSITE_SEED` if that is set, `default` otherwise. It is printed.
///
/// # Panics
/// When `DENSITE_SEED` is no number.
pub fn seed(what: &str, default: u64) -> u64 {
    let given = std::env::var("DENSITE_SEED").ok().filter(|s| !s.is_empty());
    let seed = given.map_or(default, |s| s.parse().expect("DENSITE_SEED is a number"));
    println!("{what}: DENSITE_SEED={seed}");
    seed
}
