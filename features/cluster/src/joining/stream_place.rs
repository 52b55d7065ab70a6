//! The place in the stream, as the database has it.

use densite_ingest::parts::StreamPlace;
use densite_sqlite::{Connection, Result, Value};

pub(super) fn write_place(connection: &Connection, place: &StreamPlace) -> Result<()> {
    let sql = "UPDATE main.densite_applied SET stream = ?1, stream_message = ?2, stream_mark = ?3, stream_row = ?4";
    let values = [
        Value::Blob(place.identity.to_vec()),
        Value::Integer(place.message.cast_signed()),
        Value::Integer(place.mark.cast_signed()),
        Value::Integer(place.row.cast_signed()),
    ];
    connection.query_row(sql, &values).map(drop)
}
