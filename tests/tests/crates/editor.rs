//! Names of a kernel in an editor: rust-analyzer finds the definition of every occurrence, and renames all of them.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const TEXT: &str = "use tilewright::prelude::*;

#[device]
fn squared(value: f32) -> f32 {
    value * value
}

#[kernel]
pub fn layer<const BM: usize = 64>(alpha: f32, input: &Tensor<f32, (M, K)>, out: &mut Tensor<f32, (M, K)>) {
    use self::squared;
    let from = tile(input, (BM, 32), (block.x, _));
    let to = tile(out, (BM, 32), (block.x, _));
    let scale = |x| squared(x) * alpha;
    for step in 0..from.size(2) {
        let own = map(from[(_, _, step)], |x, at| scale(x) + at.0 as f32 + M as f32);
        copy(own, to[(_, _, step)]);
    }
}
";

/// A server with one file open.
struct Editor {
    server: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    uri: String,
    asked: u64,
    is_ready: bool,
}

impl Editor {
    fn open(folder: &Path) -> Editor {
        let piped = Command::new("rust-analyzer")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut server = piped.expect("rust-analyzer starts");
        let (to, from) = (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()));
        let uri = format!("file://{}/src/lib.rs", folder.display());
        let mut editor = Editor { server, to, from, uri, asked: 0, is_ready: false };
        let options = json!({ "checkOnSave": false, "cachePriming": { "enable": false } });
        let capabilities = json!({ "experimental": { "serverStatusNotification": true } });
        let root = format!("file://{}", folder.display());
        editor.ask("initialize", &json!({ "processId": null, "rootUri": root, "capabilities": capabilities, "initializationOptions": options }));
        editor.send(&json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }));
        let file = json!({ "uri": editor.uri, "languageId": "rust", "version": 1, "text": TEXT });
        editor.send(&json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": { "textDocument": file } }));
        while !editor.is_ready {
            editor.next();
        }
        editor
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        write!(self.to, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
        self.to.flush().unwrap();
    }

    /// The next message; requests of the server get no answer but null.
    fn next(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "rust-analyzer has ended");
            match line.trim().split_once(": ") {
                Some(("Content-Length", bytes)) => length = bytes.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut text = vec![0; length];
        self.from.read_exact(&mut text).unwrap();
        let message: Value = serde_json::from_slice(&text).unwrap();
        if message["method"] == "experimental/serverStatus" {
            self.is_ready = message["params"]["quiescent"] == true;
        }
        if !message["method"].is_null() && !message["id"].is_null() {
            self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": null }));
        }
        message
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.next();
            if message["id"] == id && message["method"].is_null() {
                return message["result"].clone();
            }
        }
    }

    /// The same about a position in the file, as line and column.
    fn ask_at(&mut self, method: &str, [line, column]: [u64; 2], more: Option<&str>) -> Value {
        let position = json!({ "line": line, "character": column });
        self.ask(
            method,
            &json!({ "textDocument": { "uri": self.uri }, "position": position, "newName": more }),
        )
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Line and column of every occurrence of a word.
fn occurrences(word: &str) -> Vec<[u64; 2]> {
    let mut all = Vec::new();
    for (number, line) in TEXT.lines().enumerate() {
        let mut start = 0;
        for part in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if part == word {
                all.push([number as u64, start as u64]);
            }
            start += part.len() + 1;
        }
    }
    all
}

fn index(of: &Value) -> [u64; 2] {
    ["line", "character"].map(|part| of["start"][part].as_u64().unwrap())
}

/// A crate with the kernel.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("editor");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = format!(
        "[package]\nname = \"edited\"\nedition = \"2024\"\n[dependencies]\ntilewright = {{ path = {project:?}, default-features = false }}\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(project.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    std::fs::write(folder.join("src/lib.rs"), TEXT).unwrap();
    folder
}

#[test]
#[ignore = "long: cargo test -p tilewright-tests --test crates -- --ignored editor"]
fn names_of_a_kernel_resolve_in_an_editor() {
    if !Command::new("rust-analyzer").arg("--version").output().is_ok_and(|run| run.status.success()) {
        println!("skipped: no rust-analyzer");
        return;
    }
    let mut editor = Editor::open(&folder());
    // Every occurrence is renamed, whichever is asked about.
    for name in [
        "alpha", "input", "out", "BM", "M", "K", "from", "to", "scale", "step", "own", "at", "squared",
        "value",
    ] {
        let all = occurrences(name);
        // At an import it would be another name for the function.
        let imports = |at: &[u64; 2]| TEXT.lines().nth(at[0] as usize).unwrap().contains("use self");
        for at in all.iter().filter(|at| !imports(at)) {
            let changes = editor.ask_at("textDocument/rename", *at, Some("renamed"));
            let edits = changes["changes"].as_object().and_then(|files| files.values().next()).cloned();
            let edits = edits.or_else(|| Some(changes["documentChanges"][0]["edits"].clone()));
            let edits = edits.as_ref().and_then(Value::as_array).map(|edits| edits.iter());
            let mut renamed: Vec<_> = edits.into_iter().flatten().map(|edit| index(&edit["range"])).collect();
            renamed.sort_unstable();
            assert_eq!(renamed, all, "{name} at {at:?}: {changes}");
        }
    }
    // Functions of the language lead to their documentation.
    for name in ["tile", "map", "copy"] {
        for at in occurrences(name) {
            let hover = editor.ask_at("textDocument/hover", at, None).to_string();
            assert!(hover.contains("tilewright::language"), "{name}: {hover}");
        }
    }
    let kind = editor.ask_at("textDocument/hover", occurrences("from")[0], None).to_string();
    assert!(kind.contains("View"), "{kind}");
}
