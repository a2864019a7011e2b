//! Signatures of kernels, parsed from their declarations in CUDA C, and encoded as lines of the fake
//! "binary".

/// A kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Param {
    /// A pointer; does the kernel write through it?
    Pointer { written: bool },
    /// A tensor map, by value.
    Map,
    /// A scalar of this many bytes.
    Number(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
}

/// Every binary begins with this, followed by the architecture.
pub(crate) const MAGIC: &str = "FAKE CUBIN ";
const MARK: &str = "extern \"C\" __global__";

impl Param {
    fn of(text: &str) -> Param {
        let has =
            |word: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word);
        if text.contains('*') {
            return Param::Pointer { written: !has("const") };
        }
        match () {
            () if has("TensorMap") || has("CUtensorMap") => Param::Map,
            () if has("long") || has("double") => Param::Number(8),
            () if has("f16") || has("bf16") || has("short") => Param::Number(2),
            () if has("char") || has("e4m3") || has("e5m2") => Param::Number(1),
            () => Param::Number(4),
        }
    }

    fn letter(self) -> String {
        match self {
            Param::Pointer { written } => if written { "w" } else { "r" }.into(),
            Param::Map => "m".into(),
            Param::Number(bytes) => bytes.to_string(),
        }
    }

    fn of_letter(letter: &str) -> Param {
        match letter {
            "r" | "w" => Param::Pointer { written: letter == "w" },
            "m" => Param::Map,
            bytes => Param::Number(bytes.parse().unwrap_or(4)),
        }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Param::Pointer { .. } => 8,
            Param::Map => 128,
            Param::Number(bytes) => bytes,
        }
    }

    /// Its alignment.
    pub(crate) fn alignment(self) -> usize {
        if self == Param::Map { 64 } else { self.bytes() }
    }
}

/// The kernels of a source.
pub(crate) fn kernels(source: &str) -> Vec<Kernel> {
    source.match_indices(MARK).filter_map(|(at, _)| kernel(&source[at + MARK.len()..])).collect()
}

fn kernel(mut text: &str) -> Option<Kernel> {
    loop {
        let open = text.find('(')?;
        let name = text[..open].split_whitespace().last()?.to_string();
        let close = open + closing(&text[open..])?;
        if name.starts_with("__") {
            // Skips launch bounds and cluster extents.
            text = &text[close + 1..];
            continue;
        }
        let params = text[open + 1..close].split(',').map(str::trim).filter(|param| !param.is_empty());
        return Some(Kernel { name, params: params.map(Param::of).collect() });
    }
}

/// The index of the parenthesis that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(at)
    })
}

/// Encodes a binary; it is NUL-terminated, because its length is not passed.
pub(crate) fn binary(arch: &str, kernels: &[Kernel]) -> Vec<u8> {
    let mut text = format!("{MAGIC}{arch}\n");
    for kernel in kernels {
        let params: Vec<String> = kernel.params.iter().map(|param| param.letter()).collect();
        text += &format!("{} {}\n", kernel.name, params.join(","));
    }
    text.push('\0');
    text.into_bytes()
}

/// Parses the architecture and the kernels of a binary.
pub(crate) fn read(binary: &str) -> Option<(String, Vec<Kernel>)> {
    let mut lines = binary.strip_prefix(MAGIC)?.lines();
    let arch = lines.next()?.to_string();
    let kernel = |line: &str| {
        let (name, params) = line.split_once(' ')?;
        let params = params.split(',').filter(|letter| !letter.is_empty()).map(Param::of_letter).collect();
        Some(Kernel { name: name.to_string(), params })
    };
    Some((arch, lines.filter_map(kernel).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_has_the_signatures_of_its_source() {
        let source = r#"
            extern "C" __global__ void __launch_bounds__(256) __cluster_dims__(2, 1, 1)
            f(const float* __restrict__ a, bf16* __restrict__ c, int M, long long lda, double x, f16 y,
              const __grid_constant__ TensorMap a_map) { g(1); }
            extern "C" __global__ void none() {}
        "#;
        let kernels = kernels(source);
        let text = String::from_utf8(binary("sm_90a", &kernels)).unwrap();
        assert_eq!(text, "FAKE CUBIN sm_90a\nf r,w,4,8,8,2,m\nnone \n\0");
        assert_eq!(read(text.trim_end_matches('\0')), Some(("sm_90a".into(), kernels)));
    }
}
