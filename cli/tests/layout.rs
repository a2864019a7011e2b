//! `tilewright layout` as a user runs it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tilewright_layout::Layout;

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .arg("layout")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // In a separate thread: answers arrive while input is still being written.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn prints(arguments: &[&str], expected: &str) {
    let output = run(arguments, b"");
    assert!(output.status.success(), "{}", text(output.stderr));
    assert_eq!(text(output.stdout), expected);
}

#[track_caller]
fn fails(expression: &str, expected: &str) {
    let output = run(&[expression], b"");
    assert_eq!(output.status.code(), Some(1));
    let message = text(output.stderr);
    assert!(message.contains(expected), "`{expression}` answered: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!(text(output.stdout), "");
}

#[test]
fn evaluates_expressions() {
    prints(&["zipped_divide((8,8):(1,8), (4,4):(1,4))"], "((4,4),4):((1,4),16)\n");
    prints(&["coalesce( composition( (8,8):(1,8), <4:1,_> ) )"], "(4,8):(1,8)\n");
    prints(&["complement(4:2, 24)"], "(2,3):(1,8)\n");
    prints(&["tile_obligations((M,M):(1,lda), <4:2,8:1>)"], "8 divides M\n");
    prints(
        &["tile_obligations(M:1, (2,2):(1,3))"],
        "M leaves a remainder of 0 or at least 5 when divided by 6\n",
    );
    prints(&["(4,(2,3))"], "(4,(2,3)):(1,(4,8))\n");
    prints(&["size(right_inverse((4,8):(8,1)))"], "32\n");
    prints(
        &["logical_divide((M,K):(1,lda), (128,8))"],
        "((128,ceil(M/128)),(8,ceil(K/8))):((1,128),(lda,8*lda))\n",
    );
    prints(&["slice(Sw<3,0,3> o 0 o (8,8):(8,1), (3,_))"], "Sw<3,0,3> o 24 o 8:1\n");
    prints(&["coalesce(slice((4,(2,3)):(1,(4,8)), (0,_)))"], "6:4\n");
    prints(&["slice((4,(2,3)):(1,(4,8)), (2,_))"], "(2,3):(4,8) + 2\n");
    prints(&["upcast((128,K):(1,lda), 4)"], "(32,K):(1,ceil(lda/4)) if 4 divides lda\n");
    prints(&["<4:2,_>"], "<4:2,_>\n");
}

#[test]
fn says_what_is_wrong() {
    fails("", "column 1: expected a number or `(`, found the end");
    fails("coalesce(4:1", "column 13: expected `,` or `)`, found the end");
    fails("coalesce(4:1))", "column 14: expected the end of the expression, found `)`");
    fails("(4,2):1", "are not congruent");
    fails("coalesce((4,0):(1,4))", "leaf 1 has the extent 0");
    fails("coalesce((4,-2):(1,4))", "leaf 1 has the extent -2");
    fails("compositon(4:1, 2:1)", "did you mean `composition`?");
    fails("composition(4:1)", "it takes composition(layout, tiler)");
    fails("coalesce(4:1, 1, 2)", "it takes coalesce(layout[, tuple])");
    fails("size(size(4:1))", "expected a layout, and `4` is a number");
    fails("stride(Sw<3,0,3> o 0 o (8,8):(8,1))", "takes plain layouts");
    fails("composition((7,6):(6,1), 8:4)", "The nearest operand that works is 6:4.");
    fails(&"9".repeat(10_000), "a number of at most 63 bits");
    fails(&"(".repeat(1000), "at most 64 levels of parentheses");
    fails(&"coalesce(".repeat(1000), "at most 64 calls inside each other");
    fails(&"<".repeat(1000), "at most 16 levels of `<`");
    fails("shape(4:1) + 1", "expected the end of the expression");
}

#[test]
fn draws() {
    prints(
        &["--table", "(2,4):(1,2)"],
        "(2,4):(1,2)\n     0 1 2 3\n   ┌────────\n 0 │ 0 2 4 6\n 1 │ 1 3 5 7\n",
    );
    let svg = run(&["--svg", "-", "tiled_copy((4,8):(8,1), (2,1):(1,2))"], b"");
    let svg = text(svg.stdout);
    assert!(svg.starts_with("<svg ") && svg.contains("T31"), "{svg}");

    let file = std::env::temp_dir().join(format!("tilewright-{}.svg", std::process::id()));
    prints(&["--svg", file.to_str().unwrap(), "(2,4):(1,2)"], "(2,4):(1,2)\n");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("<svg "));
    std::fs::remove_file(file).unwrap();

    fails_to_draw("size(4:1)", "only a layout can be drawn");
    fails_to_draw("(2,2,2):(1,2,4)", "3 modes, where 2 are expected");
}

#[track_caller]
fn fails_to_draw(expression: &str, expected: &str) {
    let output = run(&["--table", expression], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).contains(expected));
}

#[test]
fn explains() {
    let explained = |expression: &str| {
        let output = run(&["--explain", expression], b"");
        format!("{}{}", text(output.stdout), text(output.stderr))
    };
    insta::assert_snapshot!("explain_result", explained("coalesce(composition((6,2):(8,2), (4,3):(3,1)))"));
    insta::assert_snapshot!("explain_division", explained("zipped_divide((8,8):(1,8), (4,4):(1,4))"));
    insta::assert_snapshot!("explain_error", explained("composition((6,2):(1,7), (3,2):(2,3))"));
    insta::assert_snapshot!("explain_complement", explained("complement((2,2,2):(0,2,3), 24)"));
    insta::assert_snapshot!("explain_inverse", explained("left_inverse((2,2):(1,3))"));
}

#[test]
fn help_lists_every_operation() {
    insta::assert_snapshot!("help", text(run(&["--help"], b"").stdout));
}

fn vectors(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../layout/tests/vectors");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn batch(lines: &str) -> Vec<String> {
    let output = run(&["--batch"], lines.as_bytes());
    assert!(output.status.success());
    let answers: Vec<String> = text(output.stdout).lines().map(String::from).collect();
    assert_eq!(answers.len(), lines.lines().count(), "one answer for each line");
    answers
}

#[test]
fn batch_of_operations() {
    let vectors = vectors("layout_ops.txt");
    let split: Vec<(&str, &str)> = vectors.lines().map(|line| line.rsplit_once('|').unwrap()).collect();
    let lines: String = split.iter().map(|(question, _)| format!("{question}\n")).collect();
    let mut same = 0;
    for ((question, expected), result) in split.iter().zip(batch(&lines)) {
        same += usize::from(*expected == result);
        if let (Ok(result), Ok(expected)) = (result.parse::<Layout>(), expected.parse::<Layout>()) {
            let equal = result.offsets().unwrap().eq(expected.offsets().unwrap());
            assert!(equal, "{question}: found {result}, expected {expected}");
        }
    }
    assert!(same * 1000 >= split.len() * 995, "{same} of {} have the same text", split.len());
}

#[test]
fn batch_of_compositions() {
    let vectors = vectors("composition_truth.txt");
    let split: Vec<(&str, &str)> = vectors.lines().map(|line| line.rsplit_once('|').unwrap()).collect();
    let lines: String = split.iter().map(|(pair, _)| format!("composition|{pair}\n")).collect();
    for ((pair, truth), result) in split.iter().zip(batch(&lines)) {
        let answered = !result.starts_with("error: ");
        assert_eq!(answered, *truth == "1", "{pair}: {result}");
    }
}

#[test]
fn batch_answers_while_it_reads() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["layout", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = std::io::BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        stdin.write_all(b"size|(4,2):(1,4)|\n").unwrap();
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut answers, &mut answer).unwrap();
        assert_eq!(answer, "8\n");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn batch_survives_anything() {
    let mut lines: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"   ".to_vec(),
        b"|".to_vec(),
        b"||||||||".to_vec(),
        b"nonsense".to_vec(),
        b"coalesce|\xff\xfe|".to_vec(),
        b"\x00|\x00|\x00".to_vec(),
        b"composition|(4,2:(1,4)|2:1".to_vec(),
        b"composition|(4,2)):(1,4)|2:1".to_vec(),
        b"composition|(4,(2)):(1,4)|2:1".to_vec(),
        b"composition|0:1|2:1".to_vec(),
        b"composition|4:1|-2:1".to_vec(),
        b"complement|4:1|0".to_vec(),
        b"complement|4:1|9223372036854775807999".to_vec(),
        b"recast|4:1|0|0".to_vec(),
        b"coalesce|(9223372036854775807,2):(1,1)|".to_vec(),
        b"composition|(4294967295,2147483648):(1,1)|(3,3):(9223372036854775807,1)".to_vec(),
        "size|(é,ü):(1,2)|".as_bytes().to_vec(),
    ];
    for open in ["(", "<", "((1,", "coalesce(", "-", "1@", "Sw<"] {
        lines.push(format!("coalesce|{}|", open.repeat(1000)).into_bytes());
        lines.push(format!("composition|4:1|{}", open.repeat(1000)).into_bytes());
    }
    lines.push(format!("coalesce|{}:1|", "9".repeat(10_000)).into_bytes());
    lines.push([b"coalesce|".as_slice(), &[b'1'; 3_000_000]].concat());
    let answers = run(&["--batch"], &lines.join(&b'\n'));
    assert!(answers.status.success());
    let answers = text(answers.stdout);
    assert_eq!(answers.lines().count(), lines.len());
    for (answer, line) in answers.lines().zip(&lines) {
        let line = String::from_utf8_lossy(&line[..line.len().min(60)]);
        assert!(answer.starts_with("error: "), "{line}: {answer}");
        assert!(answer.len() < 300, "{line}: {answer}");
    }
}
