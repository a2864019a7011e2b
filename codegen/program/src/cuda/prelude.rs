//! The runtime functions of kernels: real header files, cut into pieces. The pieces that a kernel names are
//! emitted, and the pieces that these name.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The headers, in the order in which their pieces are emitted.
const HEADERS: [&str; 18] = [
    include_str!("prelude/int.cuh"),
    include_str!("prelude/half.cuh"),
    include_str!("prelude/odd.cuh"),
    include_str!("prelude/fp8.cuh"),
    include_str!("prelude/exp2.cuh"),
    include_str!("prelude/fast.cuh"),
    include_str!("prelude/gelu.cuh"),
    include_str!("prelude/tf32.cuh"),
    include_str!("prelude/address.cuh"),
    include_str!("prelude/load.cuh"),
    include_str!("prelude/store.cuh"),
    include_str!("../isa/sm80/cp_async.cuh"),
    include_str!("../isa/sm90/mbarrier.cuh"),
    include_str!("../isa/sm90/tma.cuh"),
    include_str!("../isa/sm90/wgmma.cuh"),
    include_str!("prelude/sync.cuh"),
    include_str!("prelude/atomic.cuh"),
    include_str!("prelude/record.cuh"),
];

/// The text between two empty lines of a header.
struct Piece {
    /// The name of its type, or of its function.
    name: &'static str,
    text: &'static str,
    /// The identifiers in its code.
    words: HashSet<&'static str>,
    /// The structs of ours that an overload needs: it is emitted only if the code names them. Empty if no other piece has the name.
    types: Vec<&'static str>,
}

/// All pieces, in the order in which they are emitted.
static PIECES: LazyLock<Vec<Piece>> = LazyLock::new(|| {
    let texts = HEADERS.iter().flat_map(|header| header.split("\n\n"));
    let named: Vec<(&str, &str)> = texts.filter_map(|text| Some((defines(text)?, text))).collect();
    let structs: Vec<&str> =
        named.iter().filter(|(_, text)| text.contains("struct ")).map(|(name, _)| *name).collect();
    let piece = |&(name, text): &(&'static str, &'static str)| {
        let mut mentioned = HashSet::new();
        words(text, |word| {
            mentioned.insert(word);
        });
        let overloaded = named.iter().filter(|other| other.0 == name).count() > 1;
        let types = structs.iter().copied().filter(|name| overloaded && mentioned.contains(name)).collect();
        Piece { name, text, words: mentioned, types }
    };
    named.iter().map(piece).collect()
});

/// The name that a piece defines: of its type, or of its function.
fn defines(piece: &'static str) -> Option<&'static str> {
    let code = piece.lines().find(|line| !line.starts_with("//") && !line.starts_with("template"))?;
    if let Some(rest) = code.strip_prefix("struct ").or_else(|| code.strip_prefix("enum ")) {
        return rest.split(" {").next()?.rsplit(' ').next();
    }
    code.split('(').find_map(|before| {
        // `__device__ __forceinline__ float to_float(`: the last word, unless it is an attribute's.
        let name = before.rsplit([' ', '*', '&']).next()?;
        name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
    })
}

/// All names that pieces define.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PIECES.iter().map(|piece| piece.name)
}

/// The pieces that some code needs, in the order of the headers.
pub(super) fn needed_by(code: &[String]) -> Option<String> {
    let mut named: HashSet<&str> = HashSet::new();
    for text in code {
        words(text, |word| {
            named.insert(word);
        });
    }
    let mut needed = vec![false; PIECES.len()];
    loop {
        let before = named.len();
        for (piece, needed) in PIECES.iter().zip(&mut needed) {
            if !*needed && named.contains(piece.name) && piece.types.iter().all(|name| named.contains(name)) {
                *needed = true;
                named.extend(&piece.words);
            }
        }
        if named.len() == before {
            break;
        }
    }
    let chosen: Vec<&str> = PIECES
        .iter()
        .zip(needed)
        .filter(|(_, needed)| *needed)
        .map(|(piece, _)| piece.text.trim_end())
        .collect();
    (!chosen.is_empty()).then(|| chosen.join("\n\n") + "\n")
}

/// The identifiers of some code, its comments left out. Macros run this without optimisation on all that they print, so it is a loop
/// over bytes.
fn words<'t>(code: &'t str, mut each: impl FnMut(&'t str)) {
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
            at += 1;
        }
        if at > start {
            // Numbers are no identifiers; in ASCII they come before letters.
            if bytes[start] > b'9' {
                each(&code[start..at]);
            }
        } else if bytes[at..].starts_with(b"//") {
            while at < bytes.len() && bytes[at] != b'\n' {
                at += 1;
            }
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_has_a_name() {
        for header in HEADERS {
            for piece in header.split("\n\n").filter(|piece| !piece.starts_with("// ==")) {
                assert!(defines(piece).is_some(), "no name in:\n{piece}");
            }
        }
        let names: Vec<_> = names().collect();
        assert!(names.contains(&"bf16") && names.contains(&"mbarrier_wait"), "{names:?}");
    }

    #[test]
    fn pieces_come_with_what_they_need() {
        let code = ["bf16 x = to_bf16(to_float(x));  // mbarrier_wait is not meant".to_string()];
        let text = needed_by(&code).unwrap_or_default();
        assert!(text.contains("struct bf16") && text.contains("to_bf16("), "{text}");
        assert!(!text.contains("mbarrier") && !text.contains("struct f16"), "{text}");
    }

    /// Assembly that publishes or acquires without a clobber of memory.
    fn porous(text: &'static str) -> Vec<&'static str> {
        // Loads alone order no accesses; there are barriers around them.
        const ORDERS: [&str; 9] =
            ["bar.", "barrier", "fence", "commit", "wait", "griddepcontrol", "\"red.", "\"st.", "\"cp."];
        let all = text.split("asm").skip(1).filter_map(|rest| rest.split(");").next());
        all.filter(|asm| ORDERS.iter().any(|of| asm.contains(of)) && !asm.contains("\"memory\"")).collect()
    }

    #[test]
    fn functions_that_order_memory_clobber_it() {
        for header in HEADERS {
            assert_eq!(porous(header), [""; 0]);
        }
        assert_eq!(porous("asm volatile(\"fence.acq_rel.gpu;\");").len(), 1);
        assert_eq!(porous("asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" :: \"r\"(at));").len(), 1);
    }
}
