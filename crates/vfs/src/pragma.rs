//! PRAGMAs of the store: what SQLite asks, and the settings that they show and change.
//!
//! They are `densite_level`, `densite_threads`, `densite_decoded_cache`, `densite_dead_limit` and
//! `densite_maintain`, which is no setting (`main_file/control.rs`).

use crate::maintain::{Maintenance, dead_limit};
use crate::settings::{Settings, cache_mib, level, threads};
use densite_store::{Handle, Options};
use std::ffi::{CStr, c_char};

/// Reads what SQLITE_FCNTL_PRAGMA asks: the PRAGMA's name, in small letters, and the value if there
/// is one.
///
/// # Safety
/// `arguments` are three pointers, of which the last two are null or terminated text.
pub(crate) unsafe fn read(arguments: *mut *mut c_char) -> Option<(String, Option<String>)> {
    // SAFETY: as the caller vouches; text outlives the call.
    let text = |i: usize| unsafe {
        let ptr = *arguments.add(i);
        (!ptr.is_null()).then(|| CStr::from_ptr(ptr).to_string_lossy().into_owned())
    };
    Some((text(1)?.to_ascii_lowercase(), text(2)))
}

/// The value of a setting: of an open file of the store, or of a file that can become one.
pub(crate) fn value(name: &str, options: &Options, maintenance: &Maintenance) -> String {
    match name {
        "densite_dead_limit" => maintenance.dead_limit().to_string(),
        "densite_level" => options.level.to_string(),
        "densite_threads" => options.threads.to_string(),
        _ => (options.decoded_cache_bytes >> 20).to_string(),
    }
}

/// Changes a setting, also for the open file of the store if there is one.
///
/// # Errors
/// A sentence that names the value and what is allowed.
pub(crate) fn set(
    (name, value): (&str, &str),
    settings: &mut Settings,
    store: Option<&mut Handle>,
    maintenance: &mut Maintenance,
) -> Result<(), String> {
    let options = &mut settings.options;
    match name {
        "densite_dead_limit" => maintenance.set_dead_limit(dead_limit(value)?),
        "densite_level" => {
            options.level = level(value)?;
            if let Some(store) = store {
                let done = store.set_level(options.level);
                done.map_err(|error| error.to_string())?;
            }
        }
        "densite_threads" => {
            options.threads = threads(value)?;
            if let Some(store) = store {
                store.set_threads(options.threads);
            }
        }
        _ => {
            options.decoded_cache_bytes = cache_mib(value)? << 20;
            if let Some(store) = store {
                store.set_decoded_cache(options.decoded_cache_bytes);
            }
        }
    }
    Ok(())
}
