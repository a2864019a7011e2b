//! A generated kernel as bytes, which a program without the generator carries. The CUDA C of its variants is not among them:
//! it is printed from their thread programs. Unlike a definition's, these bytes are trusted: nesting has no bound, and readers
//! need a large stack (`source/stack`).

use tilewright_layout::{Obligation, Path, Symbol, Value};

use super::definition::{EmptyLoops, Generated, Pack, Param, Variant};
use super::fields::{thread_records, thread_variants, value_records, value_variants};
use crate::cuda;
use crate::cuda::report::{Access, Compiled, Loop, Report};
use crate::isa;
use crate::isa::atom::Atom;
use crate::source::wire::{Bytes, Wire, wire};
use crate::thread::Kernel;
use crate::thread::index::Exprs;
use crate::values::number::Number;

/// Structs as their fields in order.
macro_rules! records {
    ($($ty:ident { $($field:ident $(= $usual:expr)?),* $(, - $skipped:ident)* })*) => {
        wire! { $(struct $ty { $($field,)* $($skipped,)* })* }
    };
}

/// Enums as the number of the variant, and its parts in order.
macro_rules! variants {
    ($($ty:ident {
        $(
            $word:literal $variant:ident
            $(($($part:ident),+))? $([$($item:ident),+])? $({ $($field:ident $(= $usual:expr)?),+ })?
        ),+ $(,)?
    })*) => {
        wire! { $(enum $ty { $($variant $(($($part),+))? $({ $($item),+ })? $({ $($field),+ })?),+ })* }
    };
}

mod values {
    use super::*;
    use crate::thread::{Scope, Unroll};
    use crate::values::affine::{Affine, Arith, Coord};
    use crate::values::condition::{Require, Test};
    use crate::values::expr::Expr;
    use crate::values::operation::{Bin, Cmp, Fast, Un};

    value_records!(records);
    value_variants!(variants);

    wire! {
        struct Affine { constant, terms }
    }
}

mod threads {
    use super::*;
    use crate::thread::index::{ConstantName, Expr, Int};
    use crate::thread::probe::{Kind, Probe};
    use crate::thread::{
        AtomArg, Bar, Change, Claim, Cost, Fact, Fence, Frag, Lane, Launch, Mem, MemoryOrder, Op, Param,
        Queue, Reg, Role, Shared, Site, Space, Stmt, Val, Var, Vote,
    };

    thread_records!(records);
    thread_variants!(variants);

    wire! {
        struct Stmt { site, op }
    }
}

records! {
    Kernel { name, arch, arch_specific, launch, needs, params, shared, regs, bars, vars, sites, exprs, body }
    Param { name, elem, tensor }
    Pack { arg, modes, transposes, kernel, beside }
    Report {
        threads, shared_bytes, shared, accesses, alternatives, left_out, instruction, intensity, needs, packs, undecided, compiled
    }
    Access { what, tensor, space, width, wavefronts, sectors, note }
    Compiled { arch, registers, spilled, inner }
    Loop { instructions, multiply_adds }
}

/// Records are read where it is launched.
impl Wire for Generated {
    fn put(&self, to: &mut Vec<u8>) {
        let Generated {
            name,
            params,
            variants,
            requires,
            packs,
            empty_loops,
            with_probes,
            report,
            records: _,
        } = self;
        name.put(to);
        params.put(to);
        variants.put(to);
        requires.put(to);
        packs.put(to);
        empty_loops.put(to);
        with_probes.put(to);
        report.put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Generated> {
        Some(Generated {
            name: Wire::get(from)?,
            params: Wire::get(from)?,
            variants: Wire::get(from)?,
            requires: Wire::get(from)?,
            packs: Wire::get(from)?,
            empty_loops: Wire::get(from)?,
            with_probes: Wire::get(from)?,
            report: Wire::get(from)?,
            records: Vec::new(),
        })
    }
}

impl Wire for Variant {
    fn put(&self, to: &mut Vec<u8>) {
        self.label.put(to);
        self.program.put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Variant> {
        let (label, program) = (Wire::get(from)?, Wire::get(from)?);
        Some(Variant::new(label, cuda::print(&program), program))
    }
}

/// Its variant is made now, since a program without the generator cannot make it.
impl Wire for EmptyLoops {
    fn put(&self, to: &mut Vec<u8>) {
        self.size().put(to);
        self.idle().to_vec().put(to);
        self.variant().cloned().put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<EmptyLoops> {
        let (size, idle, variant): (_, _, Option<Variant>) =
            (Wire::get(from)?, Wire::get(from)?, Wire::get(from)?);
        Some(EmptyLoops::new(size, idle, move || variant.clone()))
    }
}

impl Wire for Exprs {
    fn put(&self, to: &mut Vec<u8>) {
        self.iter().cloned().collect::<Vec<_>>().put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Exprs> {
        Vec::get(from).map(Exprs::from)
    }
}

impl Wire for &'static Atom {
    fn put(&self, to: &mut Vec<u8>) {
        self.name.to_owned().put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<&'static Atom> {
        isa::find(&String::get(from)?)
    }
}

impl Wire for Path {
    fn put(&self, to: &mut Vec<u8>) {
        self.steps().to_vec().put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Path> {
        let steps: Vec<u8> = Wire::get(from)?;
        Path::new(&steps.into_iter().map(usize::from).collect::<Vec<_>>())
    }
}

impl Wire for Symbol {
    fn put(&self, to: &mut Vec<u8>) {
        self.name().to_owned().put(to);
    }

    fn get(from: &mut Bytes<'_>) -> Option<Symbol> {
        String::get(from).map(|name| Symbol::new(&name))
    }
}

wire! {
    enum Value { Int(n), Sym { times, of, over }, Basis { times, path }, Any }
    enum Number { Int(n), Float(x) }
}
