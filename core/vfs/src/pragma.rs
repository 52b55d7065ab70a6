//! PRAGMAs of the store: their arguments, and the settings that they show and change.
//!
//! They are `densite_level`, `densite_threads`, `densite_decoded_cache`, `densite_dead_limit` and
//! `densite_maintain`. The last one is not a setting (`main_file/control.rs`).

use crate::maintain::{Maintenance, dead_limit};
use crate::settings::{Settings, decoded_cache, level, threads};
use densite_store::{DecodedCache, Handle, Options};
use std::ffi::{CStr, c_char};

/// Reads the arguments of SQLITE_FCNTL_PRAGMA: the PRAGMA's name in lower case, and the value if
/// there is one.
///
/// # Safety
/// `arguments` are three pointers. Each of the last two is null or points to terminated text.
pub(crate) unsafe fn read(arguments: *mut *mut c_char) -> Option<(String, Option<String>)> {
    // SAFETY: the caller guarantees it; the text outlives the call.
    let text = |i: usize| unsafe {
        let ptr = *arguments.add(i);
        (!ptr.is_null()).then(|| CStr::from_ptr(ptr).to_string_lossy().into_owned())
    };
    Some((text(1)?.to_ascii_lowercase(), text(2)))
}

/// The value of a setting, for a Densite file or for a file that can become one.
pub(crate) fn value(name: &str, options: &Options, maintenance: &Maintenance) -> String {
    match name {
        "densite_dead_limit" => maintenance.dead_limit().to_string(),
        "densite_level" => options.level.to_string(),
        "densite_threads" => options.threads.to_string(),
        _ => match options.decoded_cache {
            DecodedCache::Auto => "auto".to_owned(),
            DecodedCache::Bytes(bytes) => (bytes >> 20).to_string(),
        },
    }
}

/// Changes a setting. If the store has the file open, it applies at once.
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
            options.decoded_cache = decoded_cache(value)?;
            if let Some(store) = store {
                store.set_decoded_cache(options.decoded_cache);
            }
        }
    }
    Ok(())
}
