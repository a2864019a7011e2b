//! Why a variant was not taken as it is. The text is made only on request.

use super::message::{HELP, Message, Piece, Reason, message};
use super::number::{Natural, Number};
use crate::launch::definition::Generated;
use crate::thread::{Fact, Kernel, Param};

/// The objection to a variant, or to its use without copies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Why<N = Natural> {
    /// The device has another compute capability.
    Capability(N),
    /// The device's limit of shared memory.
    Shared(N),
    /// The device's limit of threads.
    Threads(N),
    /// What its blocks pass to each other needs too much memory.
    Workspace,
    /// A fact of the program, by its index, and the number that it is about, if that is known.
    Fact(usize, Option<N>),
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
        self.message(kernel, &kernel.variant(variant).program).text()
    }
}

impl<N: Number> Why<N> {
    /// In words, for one of the kernel's programs.
    pub(super) fn message(self, kernel: &Generated, program: &Kernel) -> Message<N> {
        let launch = &program.launch;
        match self {
            Why::Capability(has) => {
                let exact = if program.arch_specific { " and no other" } else { " or newer" };
                let (major, minor) = (program.arch / 10, program.arch % 10);
                let made =
                    format!("it is made for compute capability {major}.{minor}{exact}, and the device has ");
                message![made, Piece::Count(has / 10.into()), ".", Piece::Count(has % 10.into())]
            }
            Why::Shared(most) => message![
                format!(
                    "a block takes {} bytes of shared memory, and the device gives it ",
                    launch.shared_bytes
                ),
                Piece::Count(most),
                " at most"
            ],
            Why::Threads(most) => {
                let threads = format!("a block has {} threads, and ", launch.threads);
                message![threads, Piece::Count(most), " is the device's most"]
            }
            Why::Workspace => message![
                "the sums that its blocks pass to each other need more than 256 MB of memory for these sizes"
            ],
            Why::Fact(index, value) => unmet(program, &program.needs[index], value),
            Why::Rows(pack) => {
                let pack = &kernel.packs[pack];
                let (name, [to, from]) = (&kernel.params[pack.arg].name, [pack.modes[0], pack.modes[1]]);
                message![format!(
                    "`{name}` is contiguous along mode {from}, and this variant reads it along mode {to}"
                )]
            }
            Why::Along(mode) => message![format!("it is read in rows along mode {mode}")],
            Why::Sectors => message!["its rows begin in the middle of sectors of 32 bytes"],
            Why::Older => message!["another variant is made for a newer architecture that the device has"],
            Why::Slower => message!["another variant takes less time for these sizes"],
        }
    }
}

/// An objection to one of the kernel's programs.
pub(super) struct Objection<'k, N: Number> {
    pub(super) why: Why<N>,
    pub(super) kernel: &'k Generated,
    pub(super) program: &'k Kernel,
}

impl<N: Number> Reason<N> for Objection<'_, N> {
    fn message(self) -> Message<N> {
        self.why.message(self.kernel, self.program)
    }
}

/// The violated condition of a fact.
pub(super) fn unmet<N: Number>(program: &Kernel, fact: &Fact, value: Option<N>) -> Message<N> {
    let name = |param: u32| match program.params.get(param as usize) {
        Some(Param::Pointer { name, .. } | Param::Scalar { name, .. }) => &**name,
        _ => "",
    };
    let bound = |of: &dyn std::fmt::Display, value: N, limit: i64, [than, how, sizes]: [&str; 3]| {
        let advice = format!("{HELP}{how} or assert in the kernel bounds it: choose {sizes}");
        let made = format!(", and the kernel is made for at {than} {limit}{advice}");
        message![format!("`{of}` is "), Piece::Signed(value), made]
    };
    match (fact, value) {
        (Fact::Divides(need), Some(value)) => {
            message![format!("{} does not divide {}, which is ", need.divisor, need.of), Piece::Signed(value)]
        }
        (Fact::Divides(need), None) => message![format!("{} is not known", need.of)],
        (Fact::AtMost { of, limit }, Some(value)) => {
            let words = ["most", "at_most", "larger constants there, or smaller tensors"];
            bound(of, value, *limit, words)
        }
        (Fact::AtLeast { of, limit }, Some(value)) => {
            let words = ["least", "at_least", "a smaller bound there, or larger tensors"];
            bound(of, value, *limit, words)
        }
        (Fact::AtMost { of, .. } | Fact::AtLeast { of, .. }, None) => {
            message![format!("`{of}` is not known")]
        }
        (Fact::Aligned { param, bytes }, Some(over)) => {
            let begin = format!("`{}` does not begin at a multiple of {bytes} bytes, but ", name(*param));
            message![begin, Piece::Count(over), " bytes past one"]
        }
        (Fact::Aligned { param, .. } | Fact::Small { param, .. }, _) => {
            message![format!("offsets into `{}`, rounded up to whole tiles, need 64 bits", name(*param))]
        }
    }
}
