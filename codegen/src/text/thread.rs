//! The text of thread programs. It lists index expressions in a table, each with its analysis, so that the
//! parsed program is identical, ranges included.

use super::{Reader, Result, Text, Writer, read_field, records, variants, write_field};
use crate::thread::index::{ConstantName, Expr, Exprs, Int, Ix};
use crate::thread::probe::{Kind, Probe};
use crate::thread::{
    AtomArg, Bar, Change, Claim, Cost, Fact, Fence, Frag, Kernel, Lane, Launch, Mem, MemoryOrder, Op, Param,
    Queue, Reg, Role, Shared, Site, Space, Stmt, Val, Var, Vote,
};
use crate::values::number::Number;
use tilewright_program::{thread_records, thread_variants};

macro_rules! lines {
    ($($field:ident)*) => {
        impl Text for Kernel {
            fn write(&self, to: &mut Writer) {
                to.raw("thread_program {");
                to.indent += 1;
                $(
                    to.new_line();
                    write_field!(to, stringify!($field), &self.$field);
                )*
                to.indent -= 1;
                to.new_line();
                to.raw("}");
            }

            fn read(from: &mut Reader<'_>) -> Result<Kernel> {
                from.needs("thread_program")?;
                from.needs("{")?;
                let kernel = Kernel { $($field: read_field!(from, stringify!($field)),)* };
                from.needs("}")?;
                Ok(kernel)
            }
        }
    };
}

lines! { name arch arch_specific launch needs params shared regs bars vars sites exprs body }

thread_records!(records);
thread_variants!(variants);

impl Text for Stmt {
    const LINES: bool = true;

    fn write(&self, to: &mut Writer) {
        if self.site != 0 {
            to.raw(&format!("@{} ", self.site));
        }
        self.op.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Stmt> {
        let site = if from.takes("@") { Text::read(from)? } else { 0 };
        Ok(Stmt { site, op: Op::read(from)? })
    }
}

impl Text for Ix {
    fn write(&self, to: &mut Writer) {
        to.raw(&format!("#{}", self.number()));
    }

    fn read(from: &mut Reader<'_>) -> Result<Ix> {
        from.needs("#")?;
        Text::read(from).map(Ix::at)
    }
}

impl Text for Exprs {
    fn write(&self, to: &mut Writer) {
        to.raw("{");
        to.indent += 1;
        for (at, expr) in self.iter().enumerate() {
            to.new_line();
            to.raw(&format!("#{at} "));
            expr.write(to);
        }
        to.indent -= 1;
        to.new_line();
        to.raw("}");
    }

    fn read(from: &mut Reader<'_>) -> Result<Exprs> {
        from.needs("{")?;
        let mut all = Vec::new();
        while !from.takes("}") {
            let at = Ix::read(from)?;
            if at.number() as usize != all.len() {
                return Err(from.wrong(format!("expression #{} before this", all.len())));
            }
            let expr = Expr::read(from)?;
            if expr.int.parts().iter().any(|part| *part >= at) {
                return Err(from.wrong("an expression of earlier ones before this"));
            }
            all.push(expr);
        }
        Ok(Exprs::from(all))
    }
}
