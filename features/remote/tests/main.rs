//! Tests of the crate with real servers.
mod web;
