//! The settings of a stream on the server: those of a new one, and which ones are refused.

use super::options::JetStreamOptions;
use crate::{Error, Name, Result};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType,
};

/// The subject of an origin; with `*` in its place, of all origins.
pub(super) fn subject(database: &Name, origin: &str) -> String {
    format!("densite.{database}.{origin}")
}

/// The settings of a new stream.
pub(super) fn new(options: &JetStreamOptions, database: &Name) -> Config {
    Config {
        name: options.stream.clone(),
        description: Some(format!("Densite: the rows of the database {database}")),
        subjects: vec![subject(database, "*")],
        storage: StorageType::File,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        num_replicas: options.replicas,
        deny_delete: true,
        deny_purge: !options.can_be_trimmed,
        ..Config::default()
    }
}

/// Refuses a stream that would lose messages, or has those of another database.
pub(super) fn check(config: &Config, database: &Name) -> Result<()> {
    let wanted = subject(database, "*");
    let discards = config.discard == DiscardPolicy::Old;
    let reason = if config.subjects != [wanted.clone()] {
        format!("its subjects are {:?}, not {wanted:?}", config.subjects)
    } else if config.retention != RetentionPolicy::Limits {
        "it removes messages that were read: set its retention to limits".into()
    } else if !config.max_age.is_zero() {
        "it removes messages by age: set its max age to 0".into()
    } else if config.max_messages_per_subject > 0 {
        "it removes messages by number for each subject: remove that limit".into()
    } else if discards && (config.max_bytes > 0 || config.max_messages > 0) {
        "it removes old messages when it is full: set its discard policy to new".into()
    } else if config.storage != StorageType::File {
        "its messages are only in memory: use file storage".into()
    } else if config.persist_mode == Some(PersistenceMode::Async) {
        "it acknowledges messages before it stores them: use the default persist mode".into()
    } else if config.no_ack {
        "it does not acknowledge messages: remove the setting no_ack".into()
    } else if config.sealed {
        "it is sealed: use another stream".into()
    } else if config.mirror.is_some() || config.sources.as_ref().is_some_and(|s| !s.is_empty()) {
        "its messages come from other streams: use a stream of its own".into()
    } else if config.allow_rollup || config.allow_message_ttl {
        "single messages can remove others or end by themselves: \
         remove the settings allow_rollup and allow_msg_ttl"
            .into()
    } else if config.allow_message_counter {
        "its messages are counters: use a stream without the setting allow_msg_counter".into()
    } else if config.subject_transform.is_some() {
        "it changes the subjects of messages: remove its subject transform".into()
    } else {
        return Ok(());
    };
    Err(Error::Refused(format!(
        "the stream {} cannot be used for the database {database}: {reason}",
        config.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_new_stream_is_fine_and_one_that_loses_messages_is_not() {
        let database: Name = "app".parse().expect("a name");
        let options = JetStreamOptions::new("nats://localhost", "S");
        let fine = new(&options, &database);
        assert_eq!(check(&fine, &database), Ok(()));
        assert!(fine.deny_purge && fine.deny_delete);
        type Change = fn(&mut Config);
        let changes: [(&str, Change); 12] = [
            ("subjects", |c| c.subjects.push("other".into())),
            ("retention", |c| c.retention = RetentionPolicy::WorkQueue),
            ("age", |c| c.max_age = Duration::from_secs(1)),
            ("each subject", |c| c.max_messages_per_subject = 5),
            ("discard", |c| {
                c.max_bytes = 5;
                c.discard = DiscardPolicy::Old;
            }),
            ("file storage", |c| c.storage = StorageType::Memory),
            ("persist", |c| c.persist_mode = Some(PersistenceMode::Async)),
            ("no_ack", |c| c.no_ack = true),
            ("sealed", |c| c.sealed = true),
            ("other streams", |c| c.mirror = Some(Default::default())),
            ("rollup", |c| c.allow_rollup = true),
            ("allow_msg_counter", |c| c.allow_message_counter = true),
        ];
        for (word, change) in changes {
            let mut config = fine.clone();
            change(&mut config);
            match check(&config, &database) {
                Err(Error::Refused(said)) => assert!(said.contains(word), "{word}: {said}"),
                other => panic!("{word}: {other:?}"),
            }
        }
        let mut full = fine;
        full.max_bytes = 5;
        assert_eq!(
            check(&full, &database),
            Ok(()),
            "it refuses what does not fit"
        );
    }
}
