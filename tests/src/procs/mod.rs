//! Processes under test: children that write and read a database until they are killed.
//!
//! A child is the binary `worker` of this package. It works on one database through one
//! [`Subject`] and reports what it has been promised (a commit that returned) over its
//! standard output before it goes on, so that the parent knows after a kill what must be there.
//! A child that sees anything wrong says so on standard error and exits with 1.

pub mod child;
pub mod crowd;
pub mod fork;
pub mod ledger;
pub mod puppet;
pub mod settings;
pub mod store;
pub mod subject;
pub mod writer;

pub use child::Child;
pub use puppet::Puppet;
pub use settings::seed;
pub use subject::Subject;

/// What the worker binary does: `args` are a role and the role's own arguments.
///
/// # Panics
/// When the role finds anything wrong; the caller's process then ends with a failure.
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
