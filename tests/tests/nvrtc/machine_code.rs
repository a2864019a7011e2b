//! The machine code of a binary, if a disassembler is available.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The path of the disassembler.
const VARIABLE: &str = "TILEWRIGHT_NVDISASM";

/// The instructions of a binary, and the labels between them, such as `.L_x_1:`.
pub(crate) struct MachineCode(Vec<String>);

impl MachineCode {
    /// Is there an instruction with this opcode, up to a dot or its end?
    pub(crate) fn contains(&self, opcode: &str) -> bool {
        self.count(opcode) > 0
    }

    /// The instructions and labels, in order.
    pub(crate) fn lines(&self) -> &[String] {
        &self.0
    }

    /// The number of instructions with this opcode, up to a dot or its end.
    pub(crate) fn count(&self, opcode: &str) -> usize {
        let begins = |line: &&String| {
            line.strip_prefix(opcode).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
        };
        self.0.iter().filter(begins).count()
    }

    /// All distinct opcodes.
    pub(crate) fn opcodes(&self) -> String {
        let all: BTreeSet<&str> = self
            .0
            .iter()
            .filter(|line| !line.starts_with('.'))
            .filter_map(|line| line.split(' ').next())
            .collect();
        all.into_iter().collect::<Vec<_>>().join(" ")
    }
}

/// The instructions of a binary; `None`, with a message, if there is no disassembler and the tests may be
/// skipped.
pub(crate) fn of(cubin: &[u8]) -> Option<MachineCode> {
    Some(MachineCode(disassembled(cubin, &["-c"])?.lines().filter_map(instruction).collect()))
}

/// The lines of a file that instructions of a binary have; `None` as above.
pub(crate) fn lines_of(cubin: &[u8], file: &str) -> Option<BTreeSet<u32>> {
    let text = disassembled(cubin, &["-c", "-g"])?;
    let line = |text: &str| {
        let (_, rest) = text.split_once("//## File ")?.1.split_once(&format!("{file}\", line "))?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(text.lines().filter_map(line).collect())
}

fn disassembled(cubin: &[u8], options: &[&str]) -> Option<String> {
    let Some(program) = disassembler() else {
        assert!(!crate::nothing_may_be_skipped(), "no disassembler, and no test may do without");
        return None;
    };
    let name = format!("tilewright-{}-{:?}.cubin", std::process::id(), std::thread::current().id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, cubin).expect("a temporary file can be written");
    let output = Command::new(program).args(options).arg(&file).output();
    let _ = std::fs::remove_file(&file);
    let output = output.expect("the disassembler was there a moment ago");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `        /*0040*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;` without its address and predicate; labels unchanged.
fn instruction(line: &str) -> Option<String> {
    if line.starts_with(".L_x_") && line.trim_end().ends_with(':') {
        return Some(line.trim_end().to_owned());
    }
    let (_, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('@') {
        Some(predicated) => predicated.split_once(' ')?.1.trim_start(),
        None => rest,
    };
    rest.starts_with(|c: char| c.is_ascii_uppercase()).then(|| rest.to_string())
}

fn disassembler() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let result = FOUND.get_or_init(|| {
        let installed =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/nvdisasm/nvidia/cu13/bin/nvdisasm");
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let mut places = named.into_iter().chain([installed, "nvdisasm".into()]);
        let result = places.find(|index| Command::new(index).arg("--version").output().is_ok());
        if result.is_none() {
            eprintln!(
                "skipped: no disassembler; name nvdisasm in {VARIABLE} to look at the machine code too"
            );
        }
        result
    });
    result.as_ref()
}
