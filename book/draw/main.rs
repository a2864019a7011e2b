//! Writes the pictures of the book. With the word `screenshots` it also takes pictures of the page `tilewright explore`, by Chromium.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pictures of the page: the file, the state in the page's address, the width and the height.
const SCREENSHOTS: [(&str, &str, u32, u32); 3] = [
    ("explore_accesses", "theme=light&tab=accesses&kernel=naive&access=0", 1200, 720),
    ("explore_kernel", "theme=light&tab=kernel&kernel=tutorial&stmt=14", 1200, 720),
    ("explore_choice", "theme=light&tab=choice&kernel=linear_hopper&sizes=M=16,N=4096,K=4096", 1200, 720),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pictures")
}

fn main() -> Result<(), Box<dyn Error>> {
    for (name, svg) in tilewright_book::figures()? {
        fs::write(folder().join(format!("{name}.svg")), svg)?;
    }
    match std::env::args().nth(1).as_deref() {
        None => Ok(()),
        Some("screenshots") => screenshots(),
        Some(word) => Err(format!("`{word}` is unknown; there is `screenshots`").into()),
    }
}

fn screenshots() -> Result<(), Box<dyn Error>> {
    let mut server = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "tilewright-cli", "--", "explore"])
        .stdout(Stdio::piped())
        .spawn()?;
    let taken = take(server.stdout.take().ok_or("no output")?);
    server.kill()?;
    server.wait()?;
    taken
}

/// Opens the page at the address that the server has printed.
fn take(printed: impl std::io::Read) -> Result<(), Box<dyn Error>> {
    let mut line = String::new();
    BufReader::new(printed).read_line(&mut line)?;
    let address = line.trim().strip_prefix("open ").ok_or("the server has printed no address")?;
    for (name, state, width, height) in SCREENSHOTS {
        let file = folder().join(format!("{name}.png"));
        let status = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--virtual-time-budget=20000",
            ])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--screenshot={}", file.display()))
            .arg(format!("{address}#{state}"))
            .status()?;
        if !status.success() {
            return Err(format!("chromium has taken no picture {name}").into());
        }
    }
    Ok(())
}
