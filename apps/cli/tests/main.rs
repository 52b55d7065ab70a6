//! The integration tests of the command in one program, so that it is linked once. The tests of
//! followers start themselves thousands of times and stay separate.

mod common;

mod advise;
mod bad_input;
mod busy;
mod chroma_real;
mod damage;
mod export;
#[cfg(feature = "remote")]
mod follow;
mod free_in_use;
mod full_disk;
mod join_stopped;
mod json;
mod known_programs;
mod load;
mod load_ends;
mod load_expected;
mod load_failed;
mod load_foreign;
mod load_messy;
mod load_mutants;
mod log;
mod log_lost;
mod members;
mod objects;
mod other_user;
mod output;
mod publish;
mod recovery;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod remote_s3;
#[cfg(feature = "remote")]
mod remote_signed;
mod replace;
mod replicate;
mod replicate_head;
mod replicate_log;
mod replicate_refused;
#[cfg(feature = "remote")]
mod replicate_s3;
#[cfg(feature = "remote")]
mod replicate_signed;
mod report;
mod report_history;
mod report_kinds;
mod restore_steps;
mod round_trip;
mod salvage;
mod share;
mod shell;
mod shell_attach;
mod shell_commands;
mod shell_pipes;
mod shell_settings;
mod shown;
mod sql;
mod unverifiable;
mod vacuum;
mod vacuum_refused;
mod vacuum_stopped;
