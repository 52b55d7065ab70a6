//! What SQLite writes is read as SQLite reads it, and any bytes are read or refused.

mod any;
mod sqlite;
