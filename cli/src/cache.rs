//! `tilewright cache`: compiled kernels on disk.

use clap::{ArgMatches, Command};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::SystemTime;
use tilewright_runtime::cache::{Cache, Entry};

use crate::output::{self, Failure, Result, finish, print};

const EXAMPLES: &str = "\
Examples:
  tilewright cache list
  tilewright cache list --json
  tilewright cache clear
  TILEWRIGHT_CACHE_DIR=/scratch/kernels tilewright cache list";

pub(crate) fn command() -> Command {
    let list = Command::new("list").about("Its entries, most recently used first").arg(output::json_flag());
    Command::new("cache")
        .about("List or remove compiled kernels")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(list)
        .subcommand(Command::new("clear").about("Remove all entries"))
        .after_help(EXAMPLES)
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let cache = Cache::open();
    finish(match matches.subcommand() {
        Some(("clear", _)) => clear(&cache),
        Some((_, matches)) if matches.get_flag("json") => output::json(&listed(&cache)),
        _ => list(&cache),
    })
}

fn described(cache: &Cache) -> String {
    cache.folder().map_or("nowhere: set TILEWRIGHT_CACHE_DIR to a folder".into(), |f| f.display().to_string())
}

fn list(cache: &Cache) -> Result {
    let entries = cache.list();
    let total = entries.iter().map(|entry| entry.bytes).sum();
    let mut text = format!("{}, {}, in {}\n", count(entries.len()), output::bytes(total), described(cache));
    if !entries.is_empty() {
        let head = ["kernel", "architecture", "NVRTC", "size", "last used"];
        text += &format!("\n{}", output::table(&head, entries.iter().map(row), &[3]));
    }
    print(&text)
}

/// `3 kernels`
pub(crate) fn count(kernels: usize) -> String {
    format!("{kernels} kernel{}", if kernels == 1 { "" } else { "s" })
}

fn row(entry: &Entry) -> Vec<String> {
    let (major, minor) = entry.nvrtc;
    vec![
        entry.name.clone(),
        entry.arch.clone(),
        format!("{major}.{minor}"),
        output::bytes(entry.bytes),
        ago(entry.used),
    ]
}

/// `3 hours ago`
fn ago(when: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(when).map_or(0, |age| age.as_secs());
    const UNITS: [(u64, &str); 4] = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    match UNITS.iter().find(|(length, _)| seconds >= *length) {
        None => "now".to_owned(),
        Some((length, unit)) => {
            let count = seconds / length;
            format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
        }
    }
}

fn listed(cache: &Cache) -> Value {
    let since_epoch =
        |when: SystemTime| when.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let one = |entry: &Entry| {
        let (major, minor) = entry.nvrtc;
        json!({
            "kernel": entry.name,
            "architecture": entry.arch,
            "nvrtc": format!("{major}.{minor}"),
            "bytes": entry.bytes,
            "last_used": since_epoch(entry.used),
            "file": entry.path.display().to_string(),
        })
    };
    json!({
        "folder": cache.folder().map(|folder| folder.display().to_string()),
        "kernels": cache.list().iter().map(one).collect::<Vec<_>>(),
    })
}

fn clear(cache: &Cache) -> Result {
    let removed = cache.clear().map_err(Failure::of)?;
    print(&format!("{} removed from {}\n", count(removed), described(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ages() {
        let check = |seconds, expected: &str| {
            assert_eq!(ago(SystemTime::now() - Duration::from_secs(seconds)), expected);
        };
        check(0, "now");
        check(59, "59 seconds ago");
        check(61, "1 minute ago");
        check(7200, "2 hours ago");
        check(200_000, "2 days ago");
    }
}
