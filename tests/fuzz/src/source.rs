//! Prints kernels as source text.

use tilewright_codegen::Definition;
use tilewright_codegen::ast::Arg;

/// A definition: the function, or the macro with its keys.
pub fn definition(of: &Definition) -> String {
    match of {
        Definition::Function(of, _) => of.to_string(),
        Definition::Matmul(args) => {
            format!("matmul_kernel!({})\n", args.iter().map(Arg::to_string).collect::<Vec<_>>().join(", "))
        }
    }
}
