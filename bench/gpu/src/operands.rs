//! The operands of products of one form, in sets that rotate past the cache, and their expected results in double
//! precision.

use std::rc::Rc;

use tilewright_codegen::Elem;

use super::Result;
use super::case;
use super::driver::{Device, Memory};
use super::form::{Activation, Extents, Form, Groups, OfOperands, Residual, Vector};
use super::helpers::{Epilogue, Error, Helpers, Matrix, Scales};

/// One set of data.
#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) a: Rc<Memory>,
    pub(crate) b: Rc<Memory>,
    pub(crate) c: Rc<Memory>,
    pub(crate) scale: Option<Rc<Memory>>,
    /// Zero points of groups.
    pub(crate) zero: Option<Rc<Memory>>,
    pub(crate) bias: Option<Rc<Memory>>,
    pub(crate) residual: Option<Rc<Memory>>,
    /// The second result.
    pub(crate) aux: Option<Rc<Memory>>,
    /// Scales of A and of B.
    pub(crate) operand_scales: [Option<Rc<Memory>>; 2],
}

/// Elements of a block with a scale, along K, and of B along its rows.
const BLOCK: i64 = 128;

/// Scales of an operand: the rows and the length along K that one scale serves, and the layout of scales in memory.
#[derive(Clone)]
pub(crate) struct OperandScales {
    block: [i64; 2],
    pub(crate) extents: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

impl OperandScales {
    fn count(&self) -> i64 {
        self.extents.iter().zip(&self.strides).map(|(extent, step)| extent * step).max().unwrap_or(0)
    }
}

/// Scales of A and of B, as cuBLASLt takes them. With scales of blocks, the scales of rows are contiguous along M, and the
/// scales of squares along K, in rows of a multiple of four.
pub(crate) fn operand_scales(of: OfOperands, Extents { m, n, k, .. }: Extents) -> [OperandScales; 2] {
    let blocks = |size: i64| size.div_euclid(BLOCK) + i64::from(size % BLOCK != 0);
    let along = (blocks(k) + 3) / 4 * 4;
    let rows = |rows: i64| OperandScales { block: [1, k.max(1)], extents: vec![rows], strides: vec![1] };
    match of {
        OfOperands::Rows => [rows(m), rows(n)],
        OfOperands::Blocks => [
            OperandScales { block: [1, BLOCK], extents: vec![m, blocks(k)], strides: vec![1, m] },
            OperandScales { block: [BLOCK; 2], extents: vec![blocks(n), blocks(k)], strides: vec![along, 1] },
        ],
    }
}

/// The sets of a form. A copy shares their memory.
#[derive(Clone)]
pub(crate) struct Operands {
    pub(crate) form: Form,
    pub(crate) sets: Vec<Set>,
    /// Expected results of the first and the last set. They are computed once, so a kernel that changes its inputs is
    /// detected.
    expected: [Expected; 2],
}

/// The expected results of a set: C, and the second one.
#[derive(Clone)]
struct Expected {
    c: Rc<Memory>,
    aux: Option<Rc<Memory>>,
}

/// The device and its helpers.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub(crate) device: &'a Device,
    pub(crate) helpers: &'a Helpers<'a>,
}

impl On<'_> {
    /// Random elements.
    fn filled(&self, elem: Elem, count: i64, seed: u64) -> Result<Rc<Memory>> {
        let memory = self.device.memory(count as usize * elem.bytes() as usize)?;
        self.helpers.fill(&memory, elem, seed)?;
        Ok(memory)
    }

    /// The elements of B; some types have two numbers in each element.
    fn weights(&self, form: &Form, Extents { batch, n, k, .. }: Extents, seed: u64) -> Result<Rc<Memory>> {
        if form.packed.is_some() && k % 2 != 0 {
            return Err(format!("numbers of four bits are stored in pairs here, and K is {k}"));
        }
        self.filled(form.b, batch * n * form.k_of_b(k), seed)
    }

    /// The factors of B, for each column or for each group along K of each.
    fn scales(&self, form: &Form, sizes: Extents) -> Result<Option<Rc<Memory>>> {
        match form.groups {
            Some(of) => self.filled(of.elem, sizes.n * of.count(sizes.k), SCALE).map(Some),
            None => self.vector(form.scale, sizes, SCALE),
        }
    }

    /// The zero points of B's groups, if the form has any.
    fn zeros(&self, form: &Form, Extents { n, k, .. }: Extents) -> Result<Option<Rc<Memory>>> {
        let groups = form.groups.filter(|of| of.zeros);
        groups.map(|of| self.filled(of.elem, n * of.count(k), ZERO)).transpose()
    }

    /// Scales of A and of B, if the form has any.
    fn of_operands(&self, form: &Form, sizes: Extents) -> Result<[Option<Rc<Memory>>; 2]> {
        let Some(of) = form.scales else { return Ok([None, None]) };
        if sizes.batch > 1 {
            return Err("scales of operands are measured in single products only".into());
        }
        let [of_a, of_b] = operand_scales(of, sizes);
        Ok([
            Some(self.filled(Elem::F32, of_a.count(), OPERANDS)?),
            Some(self.filled(Elem::F32, of_b.count(), OPERANDS + 1)?),
        ])
    }

    /// A residual and a second result, if the form has them.
    fn matrices(
        &self,
        form: &Form,
        Extents { batch, m, n, .. }: Extents,
        seed: u64,
    ) -> Result<[Option<Rc<Memory>>; 2]> {
        let count = batch * m * n;
        let residual = form.residual.map(|of| self.filled(of.elem, count, seed)).transpose()?;
        let aux = form.aux.map(|elem| self.device.memory(count as usize * elem.bytes() as usize));
        Ok([residual, aux.transpose()?])
    }

    fn vector(&self, of: Option<Vector>, sizes: Extents, seed: u64) -> Result<Option<Rc<Memory>>> {
        of.map(|Vector { elem, mode }| self.filled(elem, sizes.of_result(mode), seed)).transpose()
    }
}

/// Seeds of vectors; seeds of matrices are small.
const SCALE: u64 = 1 << 32;
const BIAS: u64 = 2 << 32;
const OPERANDS: u64 = 3 << 32;
const RESIDUAL: u64 = 4 << 32;
const ZERO: u64 = 5 << 32;

/// The number of sets that must rotate so that a launch finds none of its data in the cache.
fn count(cache: usize, bytes: usize) -> usize {
    (3 * cache).div_ceil(bytes.max(1)).clamp(2, 64)
}

impl Operands {
    /// Random operands of a form.
    pub(crate) fn new(on: On, form: Form, sizes: Extents) -> Result<Operands> {
        let Extents { batch, m, n, k } = sizes;
        let (scale, bias) = (on.scales(&form, sizes)?, on.vector(form.bias, sizes, BIAS)?);
        let (of_operands, zero) = (on.of_operands(&form, sizes)?, on.zeros(&form, sizes)?);
        let set = |at: usize| {
            let at = 2 * at as u64;
            let [residual, aux] = on.matrices(&form, sizes, RESIDUAL + at)?;
            Ok(Set {
                residual,
                aux,
                a: on.filled(form.a, batch * m * k, at)?,
                b: on.weights(&form, sizes, at + 1)?,
                c: on.device.memory((batch * m * n) as usize * form.out.bytes() as usize)?,
                scale: scale.clone(),
                zero: zero.clone(),
                bias: bias.clone(),
                operand_scales: of_operands.clone(),
            })
        };
        let count = count(on.device.cache, bytes(&form, sizes));
        let sets: Vec<Set> = (0..count).map(set).collect::<Result<_>>()?;
        let expected = expected(on, &form, &sets, sizes)?;
        Ok(Operands { form, sets, expected })
    }

    /// The operands of another form: the same, except for operands of other types.
    pub(crate) fn of(&self, on: On, form: Form, sizes: Extents) -> Result<Operands> {
        let known = &self.form;
        if *known == form {
            return Ok(self.clone());
        }
        let vectors = |of: &Form| (of.scale, of.groups, of.bias, of.scales);
        let matrices = |of: &Form| (of.residual, of.aux, of.activation);
        let (scale, bias) = (on.scales(&form, sizes)?, on.vector(form.bias, sizes, BIAS)?);
        let (of_operands, zero) = (on.of_operands(&form, sizes)?, on.zeros(&form, sizes)?);
        let other = |(at, set): (usize, &Set)| {
            let mut set = set.clone();
            if (form.b, form.packed) != (known.b, known.packed) {
                set.b = on.weights(&form, sizes, 2 * at as u64 + 1)?;
            }
            if vectors(&form) != vectors(known) {
                (set.scale, set.zero, set.bias) = (scale.clone(), zero.clone(), bias.clone());
                set.operand_scales = of_operands.clone();
            }
            if matrices(&form) != matrices(known) {
                [set.residual, set.aux] = on.matrices(&form, sizes, RESIDUAL + 2 * at as u64)?;
            }
            Ok(set)
        };
        let sets: Vec<Set> = self.sets.iter().enumerate().map(other).collect::<Result<_>>()?;
        let same = (form.b, form.packed, vectors(&form)) == (known.b, known.packed, vectors(known))
            && matrices(&form) == matrices(known);
        let expected = if same { self.expected.clone() } else { expected(on, &form, &sets, sizes)? };
        Ok(Operands { form, sets, expected })
    }

    /// Poisons results, runs, and compares, on the first and on the last set, the most recently written; the worst error.
    pub(crate) fn check(&self, on: On, reads_c: bool, begin: &dyn Fn(usize) -> Result) -> Result<Error> {
        let mut worst: Option<Error> = None;
        for (at, expected) in [0, self.sets.len() - 1].into_iter().zip(&self.expected) {
            let Set { c, aux, .. } = &self.sets[at];
            // Zero times NaN is NaN: a kernel that reads C must find finite numbers there, and wrong ones.
            on.device.set(c, if reads_c { 0x3f } else { 0xff })?;
            aux.iter().try_for_each(|aux| on.device.set(aux, 0xff))?;
            begin(at)?;
            let first = Some((c, self.form.out, &expected.c));
            let second = aux.as_ref().zip(self.form.aux).zip(expected.aux.as_ref());
            for (got, elem, expected) in
                first.into_iter().chain(second.map(|((got, elem), of)| (got, elem, of)))
            {
                let error = on.helpers.compare(got, elem, expected, 0.0)?;
                worst = Some(worst.map_or(error, |worst| case::worse(worst, error)));
            }
        }
        worst.ok_or_else(|| "nothing was checked".into())
    }
}

/// Compulsory traffic of a product: A, B, C, a residual and a second result once.
pub(crate) fn bytes(form: &Form, Extents { batch, m, n, k }: Extents) -> usize {
    let groups = form.groups.map(|of| (of.elem, if of.zeros { 2 } else { 1 } * n * of.count(k)));
    let all = [(form.a, m * k), (form.b, n * form.k_of_b(k)), (form.out, m * n)];
    let matrices = form.residual.map(|of| of.elem).into_iter().chain(form.aux).map(|elem| (elem, m * n));
    all.into_iter()
        .chain(groups)
        .chain(matrices)
        .map(|(elem, count)| (batch * count) as usize * elem.bytes() as usize)
        .sum()
}

/// The expected results of the first and the last set. The oracle writes contiguous columns: a row-major C is the transposed
/// product, whose rows are C's columns.
fn expected(on: On, form: &Form, sets: &[Set], sizes: Extents) -> Result<[Expected; 2]> {
    let Extents { batch, m, n, k } = sizes;
    let order = form.order;
    let one = |set: &Set, is_aux: bool| -> Result<Rc<Memory>> {
        let expected = on.device.memory((batch * m * n) as usize * 8)?;
        let scales = |at: usize| {
            let OperandScales { block, strides, .. } = &operand_scales(form.scales?, sizes)[at];
            let [rows, along] = block.map(|extent| extent as u64);
            let step = |mode: usize| strides.get(mode).map_or(0, |&step| step as u64);
            set.operand_scales[at].as_deref().map(|memory| Scales {
                memory,
                zeros: None,
                elem: Elem::F32,
                steps: [rows, step(0), along, step(1)],
            })
        };
        let of_groups = set.scale.as_deref().zip(form.groups).map(|(memory, Groups { elem, size, .. })| {
            Scales { memory, zeros: set.zero.as_deref(), elem, steps: [1, 1, size as u64, n as u64] }
        });
        let a = Matrix { scales: scales(0), ..matrix(&set.a, form.a, [m, k], order.a_rows) };
        let b = matrix(&set.b, form.b, [n, k], order.b_rows);
        let b = Matrix { packed: form.packed, scales: scales(1).or(of_groups), ..b };
        let of_columns = if order.c_rows { sizes.transposed() } else { sizes };
        let (left, right) = if order.c_rows { (b, a) } else { (a, b) };
        on.helpers.reference(left, right, &expected, of_columns)?;
        let epilogue = Epilogue {
            scale: vector(&set.scale, form.scale, order.c_rows),
            bias: vector(&set.bias, form.bias, order.c_rows),
            residual: set.residual.as_deref().zip(form.residual).and_then(|(memory, of)| {
                let Residual { elem, after } = of;
                (!(is_aux && after)).then_some((memory, elem, after))
            }),
            activation: if is_aux { Activation::None } else { form.activation },
        };
        let Activation::Own(own) = epilogue.activation else {
            on.helpers.finish(&expected, of_columns.m, of_columns.n, &epilogue)?;
            return Ok(expected);
        };
        // Before the function, and after it.
        let (after, before) = epilogue.residual.map_or((None, None), |residual| match residual.2 {
            true => (Some(residual), None),
            false => (None, Some(residual)),
        });
        let first = Epilogue { residual: before, activation: Activation::None, ..epilogue };
        on.helpers.finish(&expected, of_columns.m, of_columns.n, &first)?;
        own.apply(on.device, &expected)?;
        let last = Epilogue { scale: None, bias: None, residual: after, activation: Activation::None };
        on.helpers.finish(&expected, of_columns.m, of_columns.n, &last)?;
        Ok(expected)
    };
    let both = |set: &Set| -> Result<Expected> {
        Ok(Expected { c: one(set, false)?, aux: form.aux.map(|_| one(set, true)).transpose()? })
    };
    Ok([both(&sets[0])?, both(&sets[sets.len() - 1])?])
}

fn matrix(memory: &Memory, elem: Elem, [rows, k]: [i64; 2], k_contiguous: bool) -> Matrix<'_> {
    let steps = if k_contiguous { [k as u64, 1] } else { [1, rows as u64] };
    Matrix { memory, elem, packed: None, steps: [steps[0], steps[1], (rows * k) as u64], scales: None }
}

/// A vector and the mode of the oracle's result that it belongs to.
fn vector(memory: &Option<Rc<Memory>>, of: Option<Vector>, transposed: bool) -> Option<(&Memory, Elem, u64)> {
    let (memory, Vector { elem, mode }) = (memory.as_deref()?, of?);
    Some((memory, elem, if transposed { 1 - mode as u64 } else { mode as u64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_exceed_the_cache() {
        assert_eq!(count(50 << 20, 12 << 20), 13);
        assert_eq!(count(50 << 20, 200 << 20), 2);
        assert_eq!(count(50 << 20, 1), 64);
    }
}
