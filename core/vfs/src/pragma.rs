//! PRAGMAs of the store: their names and arguments, and the settings that they show and change. All
//! that begin with `densite_` are Densite's.

use crate::maintain::{Maintenance, dead_limit};
use crate::parameter_names::nearest;
use crate::settings::{Settings, decoded_cache, level, threads};
use densite_store::{DecodedCache, Handle, Options};
use std::ffi::{CStr, c_char};

/// A PRAGMA of Densite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pragma {
    /// Reclaims space now (`main_file/control.rs`).
    Maintain,
    /// A setting.
    Setting(Setting),
}

/// What a PRAGMA shows and changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    Level,
    Threads,
    DecodedCache,
    DeadLimit,
}

const NAMES: [(&str, Pragma); 5] = [
    ("densite_level", Pragma::Setting(Setting::Level)),
    ("densite_threads", Pragma::Setting(Setting::Threads)),
    (
        "densite_decoded_cache",
        Pragma::Setting(Setting::DecodedCache),
    ),
    ("densite_dead_limit", Pragma::Setting(Setting::DeadLimit)),
    ("densite_maintain", Pragma::Maintain),
];

impl Pragma {
    /// The PRAGMA of this name.
    ///
    /// # Errors
    /// A sentence that names the nearest known one.
    pub(crate) fn named(name: &str) -> Result<Pragma, String> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, pragma)| *pragma).ok_or_else(|| {
            let (nearest, _) = nearest(name, &NAMES.map(|(known, _)| known));
            format!("PRAGMA {name} is not known: did you mean {nearest}?")
        })
    }
}

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
pub(crate) fn value(setting: Setting, options: &Options, maintenance: &Maintenance) -> String {
    match setting {
        Setting::DeadLimit => maintenance.dead_limit().to_string(),
        Setting::Level => options.level.to_string(),
        Setting::Threads => options.threads.to_string(),
        Setting::DecodedCache => match options.decoded_cache {
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
    (setting, value): (Setting, &str),
    settings: &mut Settings,
    store: Option<&mut Handle>,
    maintenance: &mut Maintenance,
) -> Result<(), String> {
    let options = &mut settings.options;
    match setting {
        Setting::DeadLimit => maintenance.set_dead_limit(dead_limit(value)?),
        Setting::Level => {
            options.level = level(value)?;
            if let Some(store) = store {
                let done = store.set_level(options.level);
                done.map_err(|error| error.to_string())?;
            }
        }
        Setting::Threads => {
            options.threads = threads(value)?;
            if let Some(store) = store {
                store.set_threads(options.threads);
            }
        }
        Setting::DecodedCache => {
            options.decoded_cache = decoded_cache(value)?;
            if let Some(store) = store {
                store.set_decoded_cache(options.decoded_cache);
            }
        }
    }
    Ok(())
}
