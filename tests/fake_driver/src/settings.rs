//! Settings from the environment.

use std::collections::HashMap;
use std::env;

use crate::Status;

pub(crate) struct Settings {
    pub(crate) log: Option<String>,
    pub(crate) arches: Vec<u32>,
    pub(crate) attributes: HashMap<i32, i32>,
    pub(crate) memory: u64,
    pub(crate) version: i32,
    pub(crate) nvrtc: (i32, i32),
    /// The range of calls, from 1, during which another thread captures the stream of the first of them.
    pub(crate) capture: Option<(u64, u64)>,
    failures: Vec<Failure>,
    calls: HashMap<&'static str, u64>,
    all_calls: u64,
}

struct Failure {
    name: String,
    call: u64,
    and_all_after: bool,
    status: Status,
}

impl Settings {
    pub(crate) fn read() -> Settings {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let list = |name: &str| -> Vec<String> {
            text(name).map_or_else(Vec::new, |text| text.split(',').map(str::to_string).collect())
        };
        let number = |text: &str| -> i64 {
            text.parse().unwrap_or_else(|_| panic!("fake driver: `{text}` is not a number"))
        };
        let devices = text("FAKE_DEVICES").map_or(1, |text| number(&text)) as usize;
        let mut arches: Vec<u32> = list("FAKE_ARCH").iter().map(|arch| number(arch) as u32).collect();
        arches.resize(devices, arches.last().copied().unwrap_or(90));
        let attribute = |text: &String| {
            let (name, value) = text.split_once(':').expect("FAKE_ATTRIBUTES: number:value");
            (number(name) as i32, number(value) as i32)
        };
        let failure = |text: &String| {
            let parts: Vec<&str> = text.split(':').collect();
            let [name, call, status] = parts[..] else { panic!("FAKE_FAIL: name:call:status") };
            Failure {
                name: name.to_string(),
                call: number(call.trim_end_matches('+')) as u64,
                and_all_after: call.ends_with('+'),
                status: number(status) as Status,
            }
        };
        let nvrtc = text("FAKE_NVRTC").unwrap_or_else(|| "13.0".into());
        let (major, minor) = nvrtc.split_once('.').expect("FAKE_NVRTC: major.minor");
        Settings {
            log: text("FAKE_LOG"),
            arches,
            attributes: list("FAKE_ATTRIBUTES").iter().map(attribute).collect(),
            memory: text("FAKE_MEMORY").map_or(80 << 30, |text| number(&text) as u64),
            version: text("FAKE_VERSION").map_or(13000, |text| number(&text) as i32),
            nvrtc: (number(major) as i32, number(minor) as i32),
            capture: text("FAKE_CAPTURE").map(|text| {
                let (first, last) = text.split_once('-').expect("FAKE_CAPTURE: first-last");
                (number(first) as u64, number(last) as u64)
            }),
            failures: list("FAKE_FAIL").iter().map(failure).collect(),
            calls: HashMap::new(),
            all_calls: 0,
        }
    }

    /// The number of calls so far, including the current one.
    pub(crate) fn call(&self) -> u64 {
        self.all_calls
    }

    /// Counts a call; returns its failure, if configured, and whether all later calls fail too.
    pub(crate) fn fails(&mut self, name: &'static str) -> Option<(Status, bool)> {
        let call = self.calls.entry(name).or_default();
        *call += 1;
        self.all_calls += 1;
        let (call, all) = (*call, self.all_calls);
        self.failures.iter().find_map(|failure| {
            let count = match &*failure.name {
                "*" => all,
                of if of == name => call,
                _ => return None,
            };
            let hit = if failure.and_all_after { count >= failure.call } else { count == failure.call };
            hit.then_some((failure.status, failure.and_all_after))
        })
    }
}
