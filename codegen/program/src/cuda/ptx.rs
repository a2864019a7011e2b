//! Instructions of PTX that the author writes, each as a function of the generated source.

use std::fmt::Write as _;

use super::Printer;
use crate::values::elem::Elem;

impl Printer<'_> {
    /// The name of the function of these instructions.
    pub(super) fn ptx_function(&mut self, of: (String, Elem, Vec<Elem>, bool)) -> String {
        let known = self.ptx.iter().position(|known| *known == of);
        let number = known.unwrap_or_else(|| {
            self.ptx.push(of);
            self.ptx.len() - 1
        });
        format!("asm_{number}")
    }

    /// The functions.
    pub(super) fn ptx_functions(&self) -> String {
        let mut text = String::new();
        for (number, (ptx, elem, args, volatile)) in self.ptx.iter().enumerate() {
            let letter = |elem: &Elem| elem.ptx().unwrap_or("r");
            let params = args.iter().enumerate().map(|(n, elem)| format!("{} x{n}", elem.cuda()));
            let operands = args.iter().enumerate().map(|(n, elem)| format!("\"{}\"(x{n})", letter(elem)));
            let (params, operands): (Vec<String>, Vec<String>) = (params.collect(), operands.collect());
            let (params, operands) = (params.join(", "), operands.join(", "));
            let (to, own) = (elem.cuda(), letter(elem));
            let volatile = if *volatile { " volatile" } else { "" };
            let ptx = ptx.escape_default();
            let _ = writeln!(
                text,
                "__device__ __forceinline__ {to} asm_{number}({params}) {{\n    {to} to;\n    asm{volatile}(\"{ptx}\" : \"={own}\"(to) : {operands});\n    return to;\n}}\n"
            );
        }
        text
    }
}
