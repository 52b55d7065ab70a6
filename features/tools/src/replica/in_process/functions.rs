//! The SQL functions. Triggers and views cannot call them, because they act beyond the database.

use super::databases::Member;
use super::replicate_options::Options;
use super::shipping::{Shipping, ticket};
use super::{follower, status, wait};
use crate::form::{self, Form};
use crate::target;
use densite_sqlite::{Code, Connection, Error, Result, Value, ValueRef, create_function, ffi};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// Adds the functions to a connection. Call it for each connection that is opened: the last one of
/// a database ends its shipping when it closes.
///
/// # Errors
/// SQLite's.
pub(crate) fn create_functions(connection: &Connection) -> Result<()> {
    let member = Arc::new(Member::of(connection));
    let own = Arc::clone(&member);
    let name = "densite_replicate";
    create_function(connection, name, -1, ffi::DIRECTONLY, move |c, given| {
        replicate(&own, c, given)
    })?;
    let own = Arc::clone(&member);
    let name = "densite_replicate_wait";
    create_function(connection, name, -1, ffi::DIRECTONLY, move |c, given| {
        wait::wait(&own, c, given)
    })?;
    // For the libraries of the project: a ticket for a wait in steps.
    let name = "densite_replicate_ticket";
    create_function(connection, name, 0, ffi::DIRECTONLY, |_, _| {
        let ticket = i64::try_from(ticket()).unwrap_or(i64::MAX);
        Ok(Value::Integer(ticket))
    })?;
    let name = "densite_replica_status";
    create_function(connection, name, 0, ffi::DIRECTONLY, move |c, _| {
        if let Some(shipping) = member.shipping() {
            return Ok(Value::from(said(c, &shipping)));
        }
        let status = follower::status(c)?;
        Ok(status.map_or(Value::Null, |status| Value::from(status.to_string())))
    })
}

/// `densite_replicate(url [, options])`; a NULL stops.
fn replicate(member: &Member, connection: &Connection, given: &[ValueRef<'_>]) -> Result<Value> {
    let (url, options) = match given {
        [ValueRef::Null] => return Ok(stop(member, connection)),
        [url] => (url.as_str(), Some("")),
        [url, ValueRef::Null] => (url.as_str(), Some("")),
        [url, options] => (url.as_str(), options.as_str()),
        _ => (None, None),
    };
    let url = url.filter(|url| !url.is_empty());
    let (Some(url), Some(options)) = (url, options) else {
        return Err(Error::new(
            Code::ERROR,
            "densite_replicate takes a URL, and then options as text, as in densite_replicate('s3://BUCKET/PREFIX', 'interval=1'); or NULL, which stops",
        ));
    };
    let url = &*absolute(url);
    let options = Options::parse(options).map_err(|e| from_tools(&e))?;
    may_ship(connection)?;
    if let Some(path) = member.path().filter(|_| !member.is_shipped()) {
        is_compressed(connection, path)?;
    }
    let started = member.shipping_or(|path, before| {
        Shipping::start(connection.api(), path, url, options, before).map_err(|e| from_tools(&e))
    })?;
    let (shipping, is_new) = started.ok_or_else(|| {
        refused(
            "a database in memory or a temporary one is not shipped, nor a remote one; open a database file",
        )
    })?;
    if !is_new && !shipping.is_to(url) {
        return Err(refused(&format!(
            "this process ships the database to {} already; stop that first with SELECT densite_replicate(NULL)",
            shipping.url().display()
        )));
    }
    Ok(Value::from(said(connection, &shipping)))
}

/// A directory stays the same one if the process changes its own.
fn absolute(url: &str) -> Cow<'_, str> {
    if url.contains("://") {
        return url.into();
    }
    let path = std::path::absolute(url).ok();
    let path = path.and_then(|path| path.into_os_string().into_string().ok());
    path.map_or(url.into(), Cow::from)
}

/// Stops. Returns the last status; NULL if nothing ships here.
fn stop(member: &Member, connection: &Connection) -> Value {
    match member.shipping() {
        None => Value::Null,
        Some(shipping) => {
            shipping.end();
            Value::from(said(connection, &shipping))
        }
    }
}

/// A connection that can only read must not make its process write files, checkpoint or send the
/// database away.
fn may_ship(connection: &Connection) -> Result<()> {
    let is_query_only = connection.query_i64("PRAGMA query_only")? == Some(1);
    match is_query_only || connection.is_readonly(c"main") == Some(true) {
        false => Ok(()),
        true => Err(Error::new(
            Code::READONLY,
            "densite_replicate: this connection can only read; call it on one that can write",
        )),
    }
}

/// Only a compressed database is shipped.
fn is_compressed(connection: &Connection, path: &str) -> Result<()> {
    let form = target::resolve(Path::new(path)).and_then(|t| form::form(connection.api(), &t));
    match form.map_err(|e| from_tools(&e))? {
        Form::Compressed => Ok(()),
        Form::Plain => Err(refused(&format!(
            "{path}: a plain SQLite file is not replicated; compress it first (densite compress)"
        ))),
        Form::Empty => Err(refused(&format!(
            "{path}: the database is empty; create a table first"
        ))),
    }
}

fn said(connection: &Connection, shipping: &Shipping) -> String {
    let path = connection.filename(c"main").unwrap_or_default();
    status::shipping(&path, shipping).to_string()
}

fn refused(text: &str) -> Error {
    Error::new(Code::ERROR, format!("densite_replicate: {text}"))
}

fn from_tools(e: &crate::Error) -> Error {
    Error::new(Code::ERROR, e.to_string())
}
