//! What a table accepts and how its keys compare, read from the schema; and which tables and
//! triggers in it are Densite's.

pub(crate) mod affinity;
pub(crate) mod collation;
pub(crate) mod default;
pub(crate) mod expression;
pub(crate) mod key_code;
pub(crate) mod member_tables;
pub(crate) mod names;
pub(crate) mod own_tables;
pub(crate) mod own_triggers;
pub(crate) mod policy;
pub(crate) mod target;
