//! `tilewright explore`: what its server refuses, and what it answers.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use common::tilewright;
use serde_json::{Value, json};

/// A server, and the token that it has printed.
struct Server {
    process: Child,
    address: String,
    token: String,
}

impl Server {
    fn start() -> Server {
        let mut process = tilewright(&["explore"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("open http://").unwrap();
        let (address, token) = address.split_once("/?token=").unwrap();
        Server { process, address: address.to_owned(), token: token.to_owned() }
    }

    /// Sends these bytes; the answer's status and body.
    fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn ask(&self, question: &str, body: &Value) -> Value {
        let (body, Server { address, token, .. }) = (body.to_string(), self);
        let (status, answer) = self.send(&format!(
            "POST /api/{question}?token={token} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn requests_are_refused() {
    let server = Server::start();
    let Server { address, token, .. } = &server;
    assert!(address.starts_with("127.0.0.1:") && token.len() == 32, "{address} {token}");
    let check = |first: &str, fields: &str, status: u16, expected: &str| {
        let (actual, body) = server.send(&format!("{first} HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!(actual, status, "{first} {:.200}: {body:.200}", fields);
        assert!(body.contains(expected), "{first} {fields}: {body:.200}");
    };
    let host = &format!("Host: {address}\r\n");
    let (page, question) = (&format!("GET /?token={token}"), &format!("POST /api/layouts?token={token}"));
    check(page, host, 200, "<title>tilewright explore</title>");
    check(page, &host.replace("127.0.0.1", "localhost"), 200, "<!doctype html>");
    check(page, "Host: example.org\r\n", 403, "to this computer alone");
    check(page, "", 403, "to this computer alone");
    check("GET /", host, 403, "help: open the address of its last start");
    check("GET /?token=", host, 403, "the token");
    check(&format!("GET /?token={}", token.replace(|c: char| c != '0', "0")), host, 403, "the token");
    check("POST /api/layouts", host, 403, "the token");
    check(&format!("GET /etc/passwd?token={token}"), host, 404, "no such page");
    check(&format!("GET /api/layouts?token={token}"), host, 404, "no such page or question");
    check(&format!("POST /api/files?token={token}"), host, 404, "no such page or question");
    check(&format!("PUT /?token={token}"), host, 405, "read by GET");
    check(question, &format!("{host}Content-Length: 65537\r\n"), 413, "at most 65536 bytes");
    check(question, &format!("{host}Content-Length: many\r\n"), 400, "is no number");
    check(question, &format!("{host}Transfer-Encoding: chunked\r\n"), 411, "needs a Content-Length");
    check(question, host, 200, "the question is no JSON");
    check(page, &format!("{host}Long: {}\r\n", "x".repeat(20_000)), 431, "head is too long");
}

#[test]
fn questions_are_answered() {
    let server = Server::start();
    let check = |question: &str, body: Value, path: &str, expected: Value| {
        let answer = server.ask(question, &body);
        assert_eq!(answer.pointer(path), Some(&expected), "{question} {body} {path}");
    };
    let kernel = |keys: &str| json!({ "kernel": "tutorial", "keys": keys, "size": "M=32,N=32,K=8" });
    check("list", json!({}), "/kernels/0/name", json!("tutorial"));
    check("list", json!({}), "/operations/0/theme", json!("Making layouts"));
    let expressions =
        json!({ "expressions": ["(4,8):(8,1)", "complement(4:2, 24)", "composition(4:1)"], "bytes": 2 });
    check("layouts", expressions.clone(), "/0/layout/stride", json!("(8,1)"));
    check("layouts", expressions.clone(), "/0/picture/cells/8", json!(["8", "", 0]));
    check("layouts", expressions.clone(), "/0/warps/0/warp/bytes", json!(2));
    check("layouts", expressions.clone(), "/1/text", json!("(2,3):(1,8)"));
    check(
        "layouts",
        expressions,
        "/2/error",
        json!("composition has 1 operand; it takes composition(layout, tiler)"),
    );
    let tv = json!({ "expressions": ["tiled_copy((2,2):(2,1), (1,2))"] });
    check("layouts", tv, "/0/picture/cells/3", json!(["T1", "V1", 1]));
    check(
        "kernel",
        kernel("BM=64"),
        "/settings/constants/0",
        json!({ "name": "BM", "value": 64, "alternatives": null }),
    );
    check(
        "kernel",
        kernel("BM=64"),
        "/function/20",
        json!(["        copy(ta_ga[(_, _, k)], ta_sa);", 14, "examples/tutorial.rs:30"]),
    );
    check("kernel", kernel("BM=64"), "/accesses/1/tensor", json!("sa"));
    check("kernel", kernel("BM=64"), "/accesses/1/at", json!(14));
    check("kernel", kernel("BM=64"), "/accesses/1/warp/banks/takes", json!(1));
    check("part", json!({ "kernel": "tutorial", "part": "sa" }), "/columns/7", json!([7, 0]));
    check(
        "part",
        json!({ "kernel": "tutorial", "part": "a" }),
        "/undrawn",
        json!("its extents are known at launch"),
    );
    check("choose", kernel(""), "/serves/0/variant", json!(2));
    check("choose", kernel(""), "/sizes", json!({ "M": 32, "N": 32, "K": 8 }));
    check("run", kernel("BM=32 BN=32"), "/comparison/right", json!(true));
    check("run", kernel("BM=32 BN=32"), "/events/1/2", json!("begins"));
    // A product has the lines of the function that makes the same kernel.
    let product = json!({ "kernel": "matmul", "keys": "bm=32 bn=32 bk=8 tc=(8,4)", "size": "M=32,N=32,K=8" });
    check("kernel", product.clone(), "/accesses/0/at", json!(17));
    check("kernel", product.clone(), "/function/22/2", json!("matmul:23"));
    check("run", product, "/events/1/3", json!("matmul:24"));
    let large = json!({ "kernel": "tutorial", "size": "M=8192,N=8192,K=8" });
    let why = "these sizes make 67239936 elements, and a run on this page has at most 16777216\nhelp: take smaller sizes, or `tilewright run tutorial`";
    check("run", large, "/error", json!(why));
    let unknown = json!({ "kernel": "tutoral" });
    check(
        "kernel",
        unknown,
        "/error",
        json!("there is no kernel `tutoral`\n  tutoral\n  ^^^^^^^\nhelp: did you mean `tutorial`?"),
    );
}

#[test]
fn lines_of_the_source_name_their_statements() {
    let server = Server::start();
    let answer = server.ask("kernel", &json!({ "kernel": "tutorial" }));
    let source = answer["source"].as_array().unwrap();
    let of = |text: &str| {
        let line = source.iter().find(|line| line[0].as_str().unwrap().trim().starts_with(text));
        line.unwrap_or_else(|| panic!("{text}"))[1].as_u64()
    };
    assert_eq!(of("extern \"C\""), None);
    assert_eq!(of("for (int k = 0;"), Some(13));
    assert_eq!(of("// ta_sa of sa"), Some(14));
    assert_eq!(of("cp_async_wait<0>"), Some(16));
    assert_eq!(of("// acc += "), Some(18));
    assert_eq!(of("// tc_gc of c"), Some(20));
}

/// A kernel as text. The copy of `sb` has bank conflicts.
const TEXT: &str = "use tilewright::prelude::*;

#[device]
fn double<T>(x: T) -> T {
    x + x
}

#[kernel(T = f32 | f16)]
fn transpose<T, const B: usize = 32>(a: &Tensor<T, (M, N)>, b: &mut Tensor<T, (N, M)>) {
    use self::double;
    let t = layout!((32, 8));
    let s = shared::<T>(layout!((B, B)));
    // A tile of each block.
    copy(
        parallelize(tile(a, (B, B), (block.x, block.y)), t, thread.x),
        parallelize(s, t, thread.x),
    );
    cp_async_wait_all();
    sync_threads();
    let to = parallelize(tile(b, (B, B), (block.y, block.x)), t, thread.x);
    copy(map(parallelize(permute(s, (1, 0)), t, thread.x), |x| double(x)), to);
}
";

/// Each matrix product in flight is complete later.
#[test]
fn products_in_flight_are_events() {
    let keys = "dtype=bf16 arch=90 bm=64 bn=64 bk=64";
    let question = json!({ "kernel": "matmul", "keys": keys, "size": "M=64,N=64,K=128" });
    let answer = Server::start().ask("run", &question);
    let numbers = |what: &str| -> Vec<u64> {
        let events = answer["events"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
        events.filter(|event| event[2] == what).map(|event| event[4].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers("issues"), (1..=8).collect::<Vec<_>>());
    assert_eq!(numbers("finishes"), numbers("issues"));
}

#[test]
fn texts_are_kernels_too() {
    let server = Server::start();
    let check = |question: &str, text: &str, keys: &str, path: &str, expected: Value| {
        let answer =
            server.ask(question, &json!({ "text": text, "keys": keys, "size": "M=40,N=36", "part": "s" }));
        assert_eq!(answer.pointer(path), Some(&expected), "{question} {keys} {path}: {answer}");
    };
    check("kernel", TEXT, "B=64", "/settings/constants/0/value", json!(64));
    check("kernel", TEXT, "T=f16", "/settings/types/0/value", json!("f16"));
    // A statement of several lines, and the lines of its CUDA C.
    check("kernel", TEXT, "", "/function/12", json!(["    // A tile of each block.", null, null]));
    let tiled = "        parallelize(tile(a, (B, B), (block.x, block.y)), t, thread.x),";
    check("kernel", TEXT, "", "/function/14", json!([tiled, 2, "text:15"]));
    check("kernel", TEXT, "", "/function/21", json!(["}", null, null]));
    let source = server.ask("kernel", &json!({ "text": TEXT }))["source"].clone();
    let is_copy = |line: &&Value| line[0].as_str().unwrap().contains("cp_async_4(&s[");
    assert_eq!(source.as_array().unwrap().iter().find(is_copy).unwrap()[1], 2);
    check("kernel", TEXT, "", "/messages/0/range", json!([21, 63, 21, 72]));
    check("kernel", TEXT, "", "/accesses/2/warp/banks/takes", json!(32));
    check("part", TEXT, "", "/columns/31", json!([31, 0]));
    check("choose", TEXT, "", "/sizes", json!({ "M": 40, "N": 36 }));
    check("run", TEXT, "T=f16", "/events/0/3", json!("text:14"));
    check("run", TEXT, "T=f16", "/cut", json!(false));
    // Mistakes are at the author's lines and columns.
    let wrong = TEXT.replace("thread.x), |x|", "lane.z), |x|");
    let why = "`lane` is not defined in this kernel\n 21 |     copy(map(parallelize(permute(s, (1, 0)), t, lane.z), |x| double(x)), to);\n    |                                                 ^^^^\nhelp: write thread.x % 32; the closure of warp_shuffle(x, |lane| lane ^ 1) is given it";
    check("kernel", &wrong, "", "/error", json!(why));
    check("kernel", &wrong, "", "/messages/0/range", json!([21, 48, 21, 52]));
    check("run", &wrong, "", "/error", json!(why));
    let why = "the text from here on is not Rust\n 1 | fn {\n   |    ^\nhelp: close every bracket and quotation mark";
    check("kernel", "fn {", "", "/error", json!(why));
    let why = "`transpose` has no constant `BB`\n  BB=1\n  ^^\nhelp: its constants are B";
    check("choose", TEXT, "BB=1", "/error", json!(why));
    check("kernel", &" ".repeat(40_000), "", "/error", json!("a text has at most 32768 bytes"));
    check(
        "kernel",
        &format!("#[kernel] fn k() {{ f({}1) }}", "-(".repeat(10_000)),
        "",
        "/messages/0/range/0",
        json!(1),
    );
}

/// The page in a browser, where one is installed: what it shows for a state in its address.
#[test]
fn the_page_shows_the_state_of_its_address() {
    let server = Server::start();
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{}", std::process::id()));
    let page = |fragment: &str| {
        let url = format!("http://{}/?token={}#{fragment}", server.address, server.token);
        let profile = format!("--user-data-dir={}", folder.display());
        let settings =
            ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"];
        let output = Command::new("chromium").args(settings).args([profile, url]).output().ok()?;
        // A browser that cannot run here prints no page.
        String::from_utf8(output.stdout).ok().filter(|text| text.contains("<title>"))
    };
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let (text, wrong) = (escaped(TEXT), escaped(&TEXT.replace("thread.x), |x|", "lane.z), |x|")));
    for (fragment, expected) in [
        ("e=(8,8):(8,1)", "2-way conflict on bank 0, lanes 0, 4"),
        ("tab=kernel&keys=BM=64&stmt=14", r#"class="ln pin" data-at="14" title="examples/tutorial.rs:30""#),
        ("tab=accesses&access=1", "copy of sa: the warp's access that costs the most"),
        ("tab=run&size=32,32,8&keys=BM=32 BN=32&step=1", "2 of 80: warp 7: begins copy 1 into sa, 128 bytes"),
        ("tab=choice&sizes=256,256,64", "matmul_nt: K = 64, M = 256, N = 256"),
        ("tab=kernel&keys=BMM=3", "did you mean `BM`?"),
        (
            &format!("tab=kernel&kernel=(text)&keys=B=64&stmt=2&text={text}"),
            r#"class="ln pin" data-at="2" title="text:15""#,
        ),
        (
            &format!("tab=kernel&kernel=(text)&text={text}"),
            "bank_conflicts: a warp's load from `s` takes 32 wavefronts",
        ),
        (&format!("tab=run&kernel=(text)&step=1&text={text}"), "of 256 threads have arrived, text:19"),
        (&format!("tab=kernel&kernel=(text)&text={wrong}"), "`lane` is not defined in this kernel"),
    ] {
        let Some(text) = page(fragment) else { return };
        assert!(text.contains(expected), "{fragment}: `{expected}` is missing");
    }
    let _ = std::fs::remove_dir_all(folder);
}
