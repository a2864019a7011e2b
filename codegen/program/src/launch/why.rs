//! Why a variant was not taken as it is. The text is made only on request.

use super::rules::Broken;
use crate::launch::definition::Generated;
use crate::thread::{Fact, Kernel, Param};

/// The objection to a variant, or to its use without copies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Why {
    /// The device has another compute capability.
    Capability(u32),
    /// The device's limit of shared memory.
    Shared(u32),
    /// The device's limit of threads.
    Threads(u32),
    /// What its blocks pass to each other needs too much memory.
    Workspace,
    /// A fact of the program, by its index.
    Fact(usize, Broken),
    /// It reads rows along another mode than the argument has: the one that this pack copies.
    Rows(usize),
    /// An argument is copied, since the variant reads rows along this mode.
    Along(usize),
    /// An argument is copied, since its rows begin in the middle of sectors.
    Sectors,
    /// Another variant, for a newer architecture, can run.
    Older,
    /// It can run.
    Slower,
}

impl Why {
    /// In words, for one of the kernel's variants.
    pub(super) fn text(self, kernel: &Generated, variant: usize) -> String {
        let program = &kernel.variant(variant).program;
        let launch = &program.launch;
        match self {
            Why::Capability(has) => {
                let exact = if program.arch_specific { " and no other" } else { " or newer" };
                let (made, has) = (capability(program.arch), capability(has));
                format!("it is made for compute capability {made}{exact}, and the device has {has}")
            }
            Why::Shared(most) => format!(
                "a block takes {} bytes of shared memory, and the device gives it {most} at most",
                launch.shared_bytes
            ),
            Why::Threads(most) => {
                format!("a block has {} threads, and {most} is the device's most", launch.threads)
            }
            Why::Workspace => {
                "the sums that its blocks pass to each other need more than 256 MB of memory for these sizes"
                    .into()
            }
            Why::Fact(index, broken) => unmet(program, &program.needs[index], broken),
            Why::Rows(pack) => {
                let pack = &kernel.packs[pack];
                let (name, [to, from]) = (&kernel.params[pack.arg].name, [pack.modes[0], pack.modes[1]]);
                format!("`{name}` is contiguous along mode {from}, and this variant reads it along mode {to}")
            }
            Why::Along(mode) => format!("it is read in rows along mode {mode}"),
            Why::Sectors => "its rows begin in the middle of sectors of 32 bytes".into(),
            Why::Older => "another variant is made for a newer architecture that the device has".into(),
            Why::Slower => "another variant takes less time for these sizes".into(),
        }
    }
}

/// `9.0`
fn capability(arch: u32) -> String {
    format!("{}.{}", arch / 10, arch % 10)
}

/// The violated condition of a fact.
fn unmet(program: &Kernel, fact: &Fact, Broken(value): Broken) -> String {
    let name = |param: u32| match program.params.get(param as usize) {
        Some(Param::Pointer { name, .. } | Param::Scalar { name, .. }) => &**name,
        _ => "",
    };
    match (fact, value) {
        (Fact::Divides(need), Some(value)) => {
            format!("{} does not divide {}, which is {value}", need.divisor, need.of)
        }
        (Fact::Divides(need), None) => format!("{} is not known", need.of),
        (Fact::AtMost { of, limit }, Some(value)) => format!(
            "`{of}` is {value}, and the kernel is made for at most {limit}\nhelp: at_most or assert in the kernel bounds it: choose larger constants there, or smaller tensors"
        ),
        (Fact::AtLeast { of, limit }, Some(value)) => format!(
            "`{of}` is {value}, and the kernel is made for at least {limit}\nhelp: at_least or assert in the kernel bounds it: choose a smaller bound there, or larger tensors"
        ),
        (Fact::AtMost { of, .. } | Fact::AtLeast { of, .. }, None) => format!("`{of}` is not known"),
        (Fact::Aligned { param, bytes }, over) => {
            let (name, over) = (name(*param), over.unwrap_or_default());
            format!("`{name}` does not begin at a multiple of {bytes} bytes, but {over} bytes past one")
        }
        (Fact::Small { param, .. }, _) => {
            format!("offsets into `{}`, rounded up to whole tiles, need 64 bits", name(*param))
        }
    }
}
