//! Processes under test: children that write and read a database until they are killed.
//!
//! A child is the binary `worker` of this package. It works on one database through one
//! [`Subject`]. It reports each promise (a commit that returned) to its standard output before it
//! continues, so that the parent knows after a kill what must be there. A child that detects a
//! problem writes it to standard error and exits with 1.

pub mod child;
pub mod crowd;
pub mod environment;
pub mod fork;
pub mod ledger;
pub mod puppet;
pub mod store;
pub mod subject;
pub mod writer;

pub use child::Child;
pub use environment::seed;
pub use puppet::Puppet;
pub use subject::Subject;

/// The work of the worker binary: `args` are a role and the arguments of the role.
///
/// # Panics
/// If the role detects a problem. The process of the caller then fails.
pub fn work(args: &[String]) {
    let (role, rest) = args.split_first().expect("a role");
    match role.as_str() {
        "writer" => writer::run(rest),
        "crowd" => crowd::run(rest),
        "fork" => fork::run(rest),
        "puppet" => puppet::run(),
        other => panic!("there is no role {other}"),
    }
}
