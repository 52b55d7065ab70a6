//! The table's order: every entry that we call must be the function of that name. With a wrong
//! order, the wrong functions would be called and damage memory silently.

use crate::common;

use densite_sqlite::routines::{Routines, entries};
use rusqlite::ffi;

unsafe extern "C" {
    fn sqlite3_close_v2(db: *mut ffi::sqlite3) -> std::ffi::c_int;
}

#[test]
fn every_called_entry_is_the_function_of_its_name() {
    let table = common::api().as_ptr();
    let mut checked = Vec::new();
    macro_rules! same {
        ($($entry:ident = $function:ident),* $(,)?) => {$(
            // SAFETY: the table of a library that is new enough.
            let found = unsafe { (*table).$entry } as usize;
            assert_eq!(found, ffi::$function as *const () as usize, stringify!($entry));
            checked.push(stringify!($entry));
        )*};
    }
    same!(
        bind_blob64 = sqlite3_bind_blob64,
        bind_double = sqlite3_bind_double,
        bind_int64 = sqlite3_bind_int64,
        bind_null = sqlite3_bind_null,
        bind_parameter_count = sqlite3_bind_parameter_count,
        bind_parameter_index = sqlite3_bind_parameter_index,
        bind_text64 = sqlite3_bind_text64,
        busy_timeout = sqlite3_busy_timeout,
        changes64 = sqlite3_changes64,
        close = sqlite3_close,
        collation_needed = sqlite3_collation_needed,
        column_blob = sqlite3_column_blob,
        column_bytes = sqlite3_column_bytes,
        column_count = sqlite3_column_count,
        column_double = sqlite3_column_double,
        column_int64 = sqlite3_column_int64,
        column_name = sqlite3_column_name,
        column_text = sqlite3_column_text,
        column_type = sqlite3_column_type,
        column_value = sqlite3_column_value,
        db_status = sqlite3_db_status,
        declare_vtab = sqlite3_declare_vtab,
        errmsg = sqlite3_errmsg,
        extended_errcode = sqlite3_extended_errcode,
        exec = sqlite3_exec,
        finalize = sqlite3_finalize,
        free = sqlite3_free,
        get_autocommit = sqlite3_get_autocommit,
        interruptx = sqlite3_interrupt,
        last_insert_rowid = sqlite3_last_insert_rowid,
        libversion = sqlite3_libversion,
        libversion_number = sqlite3_libversion_number,
        malloc64 = sqlite3_malloc64,
        mprintf = sqlite3_mprintf,
        prepare_v2 = sqlite3_prepare_v2,
        reset = sqlite3_reset,
        table_column_metadata = sqlite3_table_column_metadata,
        clear_bindings = sqlite3_clear_bindings,
        result_blob64 = sqlite3_result_blob64,
        result_double = sqlite3_result_double,
        result_error = sqlite3_result_error,
        result_error_code = sqlite3_result_error_code,
        result_int64 = sqlite3_result_int64,
        result_null = sqlite3_result_null,
        result_text64 = sqlite3_result_text64,
        step = sqlite3_step,
        stmt_busy = sqlite3_stmt_busy,
        stmt_readonly = sqlite3_stmt_readonly,
        next_stmt = sqlite3_next_stmt,
        expanded_sql = sqlite3_expanded_sql,
        stmt_status = sqlite3_stmt_status,
        sql = sqlite3_sql,
        user_data = sqlite3_user_data,
        context_db_handle = sqlite3_context_db_handle,
        db_handle = sqlite3_db_handle,
        value_blob = sqlite3_value_blob,
        value_bytes = sqlite3_value_bytes,
        value_double = sqlite3_value_double,
        value_int64 = sqlite3_value_int64,
        value_text = sqlite3_value_text,
        value_type = sqlite3_value_type,
        create_module_v2 = sqlite3_create_module_v2,
        create_collation_v2 = sqlite3_create_collation_v2,
        create_function_v2 = sqlite3_create_function_v2,
        file_control = sqlite3_file_control,
        open_v2 = sqlite3_open_v2,
        sleep = sqlite3_sleep,
        vfs_find = sqlite3_vfs_find,
        vfs_register = sqlite3_vfs_register,
        vfs_unregister = sqlite3_vfs_unregister,
        xthreadsafe = sqlite3_threadsafe,
        extended_result_codes = sqlite3_extended_result_codes,
        blob_close = sqlite3_blob_close,
        blob_open = sqlite3_blob_open,
        blob_write = sqlite3_blob_write,
        backup_finish = sqlite3_backup_finish,
        backup_init = sqlite3_backup_init,
        backup_pagecount = sqlite3_backup_pagecount,
        backup_remaining = sqlite3_backup_remaining,
        backup_step = sqlite3_backup_step,
        db_config = sqlite3_db_config,
        db_filename = sqlite3_db_filename,
        db_readonly = sqlite3_db_readonly,
        errstr = sqlite3_errstr,
        log = sqlite3_log,
        uri_boolean = sqlite3_uri_boolean,
        uri_parameter = sqlite3_uri_parameter,
        uri_key = sqlite3_uri_key,
        filename_database = sqlite3_filename_database,
        filename_journal = sqlite3_filename_journal,
        filename_wal = sqlite3_filename_wal,
        create_filename = sqlite3_create_filename,
        database_file_object = sqlite3_database_file_object,
        free_filename = sqlite3_free_filename,
        txn_state = sqlite3_txn_state,
        wal_checkpoint_v2 = sqlite3_wal_checkpoint_v2,
        auto_extension = sqlite3_auto_extension,
        cancel_auto_extension = sqlite3_cancel_auto_extension,
        vtab_collation = sqlite3_vtab_collation,
        vtab_config = sqlite3_vtab_config,
        set_last_insert_rowid = sqlite3_set_last_insert_rowid,
        system_errno = sqlite3_system_errno,
        vtab_on_conflict = sqlite3_vtab_on_conflict,
        stricmp = sqlite3_stricmp,
    );
    // rusqlite's bindings do not have this one.
    // SAFETY: as above.
    let found = unsafe { (*table).close_v2 } as usize;
    assert_eq!(found, sqlite3_close_v2 as *const () as usize);
    checked.push("close_v2");
    let mut used: Vec<&str> = entries()
        .iter()
        .filter(|e| e.used)
        .map(|e| e.name)
        .collect();
    used.sort_unstable();
    checked.sort_unstable();
    assert_eq!(
        used, checked,
        "an entry is called and not checked, or checked and not called"
    );
}

#[test]
fn unused_entries_keep_their_places_too() {
    // The last entry of 3.37.2; its place depends on all entries before it.
    assert_eq!(entries().len(), 256);
    let table = common::api().as_ptr();
    // SAFETY: the table of a library that is new enough.
    let found = unsafe { (*table).autovacuum_pages }.expect("the entry exists") as usize;
    assert_eq!(found, ffi::sqlite3_autovacuum_pages as *const () as usize);
    assert_eq!(size_of::<Routines>(), 256 * size_of::<usize>());
}

/// The only entry of a later version that is read.
#[test]
fn the_entry_for_schema_names_is_at_its_place() {
    let table = common::api().as_ptr().cast::<usize>();
    // SAFETY: the table of a library that is new enough.
    let found = unsafe { *table.add(256 + 8) };
    assert_eq!(found, ffi::sqlite3_db_name as *const () as usize);
}
