//! PRAGMAs of the store: `densite_level`, `densite_threads`, `densite_decoded_cache`, `densite_dead_limit`, `densite_maintain`.

use crate::main_file::{MainFile, State};
use crate::maintain::dead_limit;
use crate::settings::{cache_mib, level, threads};
use densite_sqlite::Code;
use std::ffi::{CStr, c_char};

impl MainFile {
    /// SQLITE_FCNTL_PRAGMA: a place for the answer's text, the name, the value or null.
    /// [`Code::NOTFOUND`] for a pragma that is not ours, or not on this file.
    ///
    /// # Safety
    /// `arguments` are three pointers, of which the last two are null or terminated text.
    pub(crate) unsafe fn pragma(&mut self, arguments: *mut *mut c_char) -> Code {
        // SAFETY: as the caller vouches; text outlives the call.
        let text = |i: usize| unsafe {
            let ptr = *arguments.add(i);
            (!ptr.is_null()).then(|| CStr::from_ptr(ptr).to_string_lossy().into_owned())
        };
        let Some(name) = text(1) else {
            return Code::NOTFOUND;
        };
        let name = name.to_ascii_lowercase();
        if name == "wal_checkpoint" {
            self.asked_for_checkpoint = true;
        }
        if !name.starts_with("densite_") || matches!(self.state, State::Plain | State::Refused(_)) {
            return Code::NOTFOUND;
        }
        let (code, answer) = match self.setting(&name, text(2)) {
            None => return Code::NOTFOUND,
            Some(Ok(value)) => (Code::OK, value),
            Some(Err(message)) => (Code::ERROR, message),
        };
        // SAFETY: the first place is for the answer, which SQLite frees.
        unsafe { *arguments = self.api.string(&answer) };
        code
    }

    /// Sets a setting if there is a value, and answers what it is now.
    fn setting(&mut self, name: &str, value: Option<String>) -> Option<Result<String, String>> {
        let value = value.as_deref();
        let done = match name {
            "densite_level" => value.map_or(Ok(()), |v| self.set_level_text(v)),
            "densite_threads" => value.map_or(Ok(()), |v| {
                let n = threads(v)?;
                self.settings.options.threads = n;
                if let State::Store(handle) = &mut self.state {
                    handle.set_threads(n);
                }
                Ok(())
            }),
            "densite_decoded_cache" => value.map_or(Ok(()), |v| {
                let bytes = cache_mib(v)? << 20;
                self.settings.options.decoded_cache_bytes = bytes;
                if let State::Store(handle) = &mut self.state {
                    handle.set_decoded_cache(bytes);
                }
                Ok(())
            }),
            "densite_dead_limit" => value.map_or(Ok(()), |v| {
                self.maintenance.dead_limit = dead_limit(v)?;
                Ok(())
            }),
            "densite_maintain" => return Some(self.maintain_now().map(|bytes| bytes.to_string())),
            _ => return None,
        };
        if let Err(message) = done {
            return Some(Err(message));
        }
        let options = match &self.state {
            State::Store(handle) => handle.options(),
            _ => &self.settings.options,
        };
        Some(Ok(match name {
            "densite_dead_limit" => self.maintenance.dead_limit.to_string(),
            "densite_level" => options.level.to_string(),
            "densite_threads" => options.threads.to_string(),
            _ => (options.decoded_cache_bytes >> 20).to_string(),
        }))
    }

    fn set_level_text(&mut self, value: &str) -> Result<(), String> {
        let level = level(value)?;
        self.settings.options.level = level;
        match &mut self.state {
            State::Store(handle) => handle.set_level(level).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }
}
