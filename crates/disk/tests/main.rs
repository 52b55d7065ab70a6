//! The integration tests of this crate, in one program: it is linked once.

mod real;
mod sim;
mod sim_props;
