//! Which restore points and objects there are, hour by hour. The clock is simulated.

use crate::common::{Database, begin, bucket, quick, reader, restored};
use densite_replica::{At, Bucket, Error, HEAD, Shipper, ShipperOptions, Step};
use densite_sim_disk::SimDisk;
use rand::RngExt;
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: u64 = 3_600_000;
/// Restore points are kept for so long.
const RETAIN: u64 = 6 * HOUR;
/// A base comes so often.
const BASE_EVERY: u64 = 4 * HOUR;
/// Objects that are not needed stay for so long.
const GRACE: u64 = HOUR;

struct Days {
    database: Database,
    disk: SimDisk,
    now_ms: u64,
    /// The pages of each restore point, by its time.
    states: BTreeMap<u64, Vec<Vec<u8>>>,
    /// When each object appeared.
    seen: BTreeMap<String, u64>,
}

impl Days {
    fn options(&self) -> ShipperOptions {
        ShipperOptions {
            retain: Duration::from_millis(RETAIN),
            base_every: Duration::from_millis(BASE_EVERY),
            ..quick()
        }
    }

    /// Notes the state of the newest restore point, and the objects.
    fn note(&mut self, shipper: &Shipper) {
        let (.., time_ms) = shipper.position();
        self.states.insert(time_ms, self.database.pages.clone());
        let objects = reader(&self.disk).list("", "").expect("list");
        let names: Vec<String> = objects.into_iter().map(|object| object.name).collect();
        self.seen.retain(|name, _| names.contains(name));
        for name in names.into_iter().filter(|name| name != HEAD) {
            self.seen.entry(name).or_insert(self.now_ms);
        }
    }

    /// Changes for some hours, with pauses in which deltas are merged.
    fn pass(&mut self, shipper: &mut Shipper, hours: u64) {
        let end = self.now_ms + hours * HOUR;
        let mut checked = self.now_ms;
        while self.now_ms < end {
            self.now_ms += self.database.rng.random_range(1_000..180_000);
            self.database.commit(3);
            let mut source = self.database.source();
            let step = shipper.step(&mut source, self.now_ms, &mut |_| true);
            assert!(matches!(step, Ok(Step::Shipped { .. })), "{step:?}");
            self.note(shipper);
            if self.database.rng.random_ratio(1, 10) {
                self.now_ms += 15_000;
                let mut source = self.database.source();
                let step = shipper.step(&mut source, self.now_ms, &mut |_| true);
                assert!(!matches!(step, Ok(Step::Shipped { .. })), "{step:?}");
            }
            if self.now_ms - checked > HOUR {
                checked = self.now_ms;
                self.check();
            }
        }
    }

    /// What must be there is, and what must not be is not.
    fn check(&mut self) {
        let folder = reader(&self.disk);
        let first = self.states.keys().next().copied().expect("a state");
        for _ in 0..4 {
            let least = self.now_ms.saturating_sub(RETAIN).max(first);
            let moment = self.database.rng.random_range(least..=self.now_ms);
            let (done, pages) = restored(&folder, At::Time(moment)).expect("restore");
            let expected = self.states.range(..=moment).next_back();
            let (time_ms, expected) = expected.expect("a state");
            assert_eq!(done.time_ms, *time_ms, "at {moment}");
            assert!(pages == *expected, "at {moment}: another state");
        }
        // The oldest base that is kept can be the one before the limit. A base takes the place of
        // another when the next one comes, and its objects go an hour later, with a step.
        let most = RETAIN + 2 * BASE_EVERY + GRACE + HOUR;
        for (name, since_ms) in &self.seen {
            let age = self.now_ms - since_ms;
            assert!(age <= most, "{name} is {} hours old", age / HOUR);
        }
    }
}

#[test]
fn restore_points_stay_as_long_as_promised_and_objects_not_much_longer() {
    let mut days = Days {
        database: Database::new(21),
        disk: SimDisk::new(21),
        now_ms: HOUR,
        states: BTreeMap::new(),
        seen: BTreeMap::new(),
    };
    let options = days.options();
    let folder = bucket(&days.disk);
    for generation in 0..2 {
        let takeover = ShipperOptions {
            takeover: generation > 0,
            ..options.clone()
        };
        let begun = begin(&folder, &mut days.database, &takeover, days.now_ms);
        let mut shipper = begun.expect("begin");
        days.note(&shipper);
        days.pass(&mut shipper, 15);
        // A restart changes nothing of it.
        let mut shipper = begin(&folder, &mut days.database, &options, days.now_ms).expect("begin");
        days.pass(&mut shipper, 15);
    }
    let early = days.now_ms - RETAIN - 2 * BASE_EVERY;
    let early = restored(&folder, At::Time(early));
    assert!(matches!(early, Err(Error::TooEarly { .. })), "{early:?}");
}
