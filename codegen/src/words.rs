//! Keys and constants as text, and the kernels that they describe.

pub use tilewright_parse::words::*;

use crate::compiled::kernel_def::{KernelDef, Locations};
use crate::launch::definition::{Definition, Generated, Outcome};
use crate::source::ast::{Arg, Name};
use crate::specialize::Generate;

/// Kernels that words describe.
pub trait Kernels: Sized {
    /// The matrix product of these keys.
    fn matmul(self) -> Result<Generated, Mistakes>;

    /// A kernel with other constants and element types, or with other keys, as the text says.
    ///
    /// ```
    /// # use tilewright_codegen::{Definition, Generate, kernel_def::Locations};
    /// use tilewright_codegen::words::{Kernels, Words};
    /// # let definition = Definition::Matmul(vec![]);
    /// # let def = definition.def(&definition.generate().kernel.unwrap(), &Locations::default());
    /// let other = Words::specialize(&def, "bm=64 bn=64")?;
    /// assert!(other.report().contains("64 divides M, N"));
    /// # Ok::<(), tilewright_codegen::words::Mistakes>(())
    /// ```
    fn specialize(def: &KernelDef, text: &str) -> Result<KernelDef, Mistakes>;
}

impl Kernels for Words {
    fn matmul(self) -> Result<Generated, Mistakes> {
        let outcome = Definition::Matmul(self.args().to_vec()).generate();
        made(&self, outcome, &Locations::default())
    }

    fn specialize(def: &KernelDef, text: &str) -> Result<KernelDef, Mistakes> {
        let locations = def.locations();
        let mut words = Words::read_after(text, &locations)?;
        let Some(definition) = def.definition() else {
            let reported =
                "this kernel was compiled by another version of tilewright\nhelp: build the program again";
            return Err(Mistakes::new(reported));
        };
        let definition = match definition {
            Definition::Matmul(mut args) => {
                let given = |arg: &Arg| words.args().iter().any(|new| same_name(new, arg));
                args.retain(|arg| !given(arg));
                args.extend(words.args().iter().cloned());
                Definition::Matmul(args)
            }
            Definition::Function(kernel, mut settings) => {
                let set = words.settings(&kernel);
                settings.replace(set.map_err(|all| words.mistakes(&all, &locations))?);
                Definition::Function(kernel, settings)
            }
        };
        let outcome = definition.check();
        let generated = made(&words, outcome, &locations)?;
        Ok(definition.def(&generated, &locations))
    }
}

fn made(words: &Words, outcome: Outcome, elsewhere: &Locations) -> Result<Generated, Mistakes> {
    outcome.kernel.ok_or_else(|| words.mistakes(&outcome.diagnostics, elsewhere))
}

fn same_name(a: &Arg, b: &Arg) -> bool {
    let text = |arg: &Arg| arg.name.as_ref().map(|name: &Name| name.text.clone());
    text(a) == text(b)
}
