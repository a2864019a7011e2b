//! The runtime functions of kernels: real header files, cut into pieces. The pieces that a kernel names are
//! emitted, and the pieces that these name.

use std::collections::HashSet;

/// The headers, in the order in which their pieces are emitted.
const HEADERS: [&str; 16] = [
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
    include_str!("prelude/cp_async.cuh"),
    include_str!("prelude/mbarrier.cuh"),
    include_str!("prelude/bulk.cuh"),
    include_str!("prelude/wgmma.cuh"),
    include_str!("prelude/sync.cuh"),
    include_str!("prelude/atomic.cuh"),
];

/// A piece: the text between two empty lines.
fn pieces() -> impl Iterator<Item = &'static str> {
    HEADERS.iter().flat_map(|header| header.split("\n\n")).filter(|piece| defines(piece).is_some())
}

/// The name that a piece defines: of its struct, or of its function.
fn defines(piece: &'static str) -> Option<&'static str> {
    let code = piece.lines().find(|line| !line.starts_with("//") && !line.starts_with("template"))?;
    if let Some(rest) = code.strip_prefix("struct ") {
        return rest.split(" {").next()?.rsplit(' ').next();
    }
    code.split('(').find_map(|before| {
        // `__device__ __forceinline__ float to_float(`: the last word, unless it is an attribute's.
        let name = before.rsplit([' ', '*', '&']).next()?;
        name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
    })
}

/// The structs of ours that a piece mentions.
fn types(piece: &'static str) -> impl Iterator<Item = &'static str> {
    let mut mentioned = HashSet::new();
    words(piece, &mut mentioned);
    let structs = pieces().filter(|piece| piece.contains("struct ")).filter_map(defines);
    structs.filter(move |name| mentioned.contains(name))
}

/// All names that pieces define.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    pieces().filter_map(defines)
}

/// The pieces that some code needs, in the order of the headers.
pub(super) fn needed_by(code: &[String]) -> Option<String> {
    let mut named: HashSet<&str> = HashSet::new();
    code.iter().for_each(|text| words(text, &mut named));
    let all: Vec<(&str, &'static str)> =
        pieces().filter_map(|piece| Some((defines(piece)?, piece))).collect();
    let fits = |name: &str, piece: &'static str, named: &HashSet<&str>| {
        // An overload is needed if the code names its types.
        let alone = all.iter().filter(|other| other.0 == name).count() == 1;
        alone || types(piece).all(|name| named.contains(name))
    };
    let mut needed = vec![false; all.len()];
    loop {
        let before = named.len();
        for (at, (name, piece)) in all.iter().enumerate() {
            if !needed[at] && named.contains(name) && fits(name, piece, &named) {
                needed[at] = true;
                words(piece, &mut named);
            }
        }
        if named.len() == before {
            break;
        }
    }
    let chosen: Vec<&str> = all
        .iter()
        .zip(needed)
        .filter(|(_, needed)| *needed)
        .map(|((_, piece), _)| piece.trim_end())
        .collect();
    (!chosen.is_empty()).then(|| chosen.join("\n\n") + "\n")
}

/// The identifiers of some code, its comments left out.
fn words<'t>(code: &'t str, to: &mut HashSet<&'t str>) {
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or(line);
        to.extend(
            line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty()),
        );
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
