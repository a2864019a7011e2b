//! Expected results, which a program computes from the inputs of a run.

use crate::run::problem::{Problem, Tensor};
use tilewright_codegen::Elem;

/// The inputs of a run, in double precision.
pub struct Inputs<'p> {
    problem: &'p Problem,
}

/// The expected results of a run.
pub struct Results<'p> {
    problem: &'p Problem,
    /// By the name of the tensor: its values, the first mode fastest, and the allowed error.
    filled: Vec<(String, Vec<f64>)>,
    tolerance: Option<f64>,
}

impl<'p> Inputs<'p> {
    pub(crate) fn of(problem: &'p Problem) -> Inputs<'p> {
        Inputs { problem }
    }

    fn tensor(&self, name: &str) -> &'p Tensor {
        tensor(self.problem, name)
    }

    /// An element of a tensor. Panics if there is no such tensor or element.
    pub fn at(&self, name: &str, coordinate: &[usize]) -> f64 {
        let tensor = self.tensor(name);
        assert!(
            coordinate.len() == tensor.extents.len()
                && coordinate.iter().zip(&tensor.extents).all(|(at, extent)| at < extent),
            "there is no element {coordinate:?} in `{name}`, whose extents are {:?}",
            tensor.extents
        );
        tensor.at(coordinate)
    }

    /// The extents of a tensor.
    pub fn extents(&self, name: &str) -> &'p [usize] {
        &self.tensor(name).extents
    }

    /// A number that the kernel takes.
    pub fn number(&self, name: &str) -> f64 {
        let number = self.problem.number(name);
        number.unwrap_or_else(|| panic!("the kernel takes no number `{name}`"))
    }
}

impl<'p> Results<'p> {
    /// The expected elements of a result, by their coordinates.
    pub fn fill(&mut self, name: &str, element: impl Fn(&[usize]) -> f64) {
        let tensor = tensor(self.problem, name);
        assert!(tensor.written, "the kernel does not write `{name}`");
        let values = coordinates(&tensor.extents, 1).map(|at| element(&at)).collect();
        self.filled.retain(|(known, _)| known != name);
        self.filled.push((name.to_owned(), values));
    }

    /// Sets the allowed error, relative to the expected element and to the mean size of all. The default is 1e-5 plus the
    /// rounding of the result, and 1e-12 for f64.
    pub fn tolerance(&mut self, relative: f64) {
        self.tolerance = Some(relative);
    }

    pub(crate) fn of(problem: &'p Problem) -> Results<'p> {
        Results { problem, filled: Vec::new(), tolerance: None }
    }

    /// The expected elements of a result, and the allowed error of each; `None` if the result was not filled in.
    pub(crate) fn take(&mut self, tensor: &Tensor) -> Option<(Vec<f64>, impl Fn(f64) -> f64 + use<>)> {
        let index = self.filled.iter().position(|(name, _)| *name == tensor.name)?;
        let values = self.filled.swap_remove(index).1;
        let usual = match tensor.elem {
            Elem::F64 => 1e-12,
            elem if elem.is_float() => 1e-5 + 2.0 * elem.roundoff(),
            _ => 0.0,
        };
        let tolerance = self.tolerance.unwrap_or(usual);
        let squares: f64 = values.iter().map(|value| value * value).sum();
        let mean = (squares / values.len().max(1) as f64).sqrt();
        Some((values, move |expected: f64| tolerance * (expected.abs() + mean)))
    }
}

fn tensor<'p>(problem: &'p Problem, name: &str) -> &'p Tensor {
    let matching = problem.tensors().find(|tensor| tensor.name == name);
    matching.unwrap_or_else(|| panic!("the kernel has no tensor `{name}`"))
}

/// Every `step`th coordinate, the first mode running fastest.
pub(crate) fn coordinates(extents: &[usize], step: usize) -> impl Iterator<Item = Vec<usize>> {
    let count: usize = extents.iter().product();
    (0..count).step_by(step).map(|mut rest| {
        let along = |extent: &usize| {
            let along = rest % extent;
            rest /= extent;
            along
        };
        extents.iter().map(along).collect()
    })
}
