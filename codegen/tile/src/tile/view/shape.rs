//! Other shapes of the same elements: modes regrouped, permuted, added and repeated.

use tilewright_layout::{Layout, Tuple, Value};

use super::View;
use crate::source::problem::{Problem, Result, count};
use crate::values::limits::{self, MOST_MODES};

impl View {
    /// A refusal of a view that is too large; otherwise the number of its parts.
    pub fn within_limits(&self) -> Result<usize> {
        limits::layout(&self.layout)?;
        let mut parts = self.layout.leaves().count();
        for (origin, extent) in self.limits.iter().flatten() {
            limits::integer(*extent)?;
            limits::coordinate(origin)?;
        }
        for base in &self.base {
            parts += limits::coordinate(base)?;
        }
        Ok(parts)
    }

    /// The same elements in the same order, leftmost mode fastest, under another shape.
    pub fn regroup(&self, shape: impl Into<Tuple>) -> Result<View> {
        let shape: Tuple = shape.into();
        let (have, want) = (self.layout.size()?, shape.product());
        if want != Some(have) {
            let example = match (shape.rank(), want) {
                (2.., Some(_)) => {
                    // The last extent is derived from the others.
                    let all: Vec<i64> = shape.modes().filter_map(|mode| mode.product()).collect();
                    let first: i64 = all[..all.len() - 1].iter().product();
                    let fits = first > 0 && have % first == 0;
                    fits.then(|| Tuple::flat(&[&all[..all.len() - 1], &[have / first]].concat()).to_string())
                }
                _ => None,
            };
            let example = example.unwrap_or_else(|| format!("({have})"));
            return Err(Problem::new(format!(
                "`{}` has {}, {}, and the shape {shape} has {}",
                self.name,
                count(have, "element"),
                self.shape(),
                want.map_or_else(|| "a size known at launch".into(), |n| n.to_string())
            ))
            .help(format!("write extents whose product is {have}, such as {}", example.replace(',', ", ")))
            .arg(1));
        }
        Ok(self.rearranged(self.layout.composition(Layout::compact(shape)?)?))
    }

    /// The same elements with their modes permuted.
    pub fn permute(&self, order: &[usize]) -> Result<View> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted != (0..self.rank()).collect::<Vec<_>>() {
            let given: Vec<String> = order.iter().map(usize::to_string).collect();
            let plain: Vec<String> = (0..self.rank()).rev().map(|mode| mode.to_string()).collect();
            return Err(Problem::new(format!(
                "({}) is no order of the {} of `{}`, {}",
                given.join(", "),
                count(self.rank(), "mode"),
                self.name,
                self.shape()
            ))
            .help(format!("name each mode once, such as ({})", plain.join(", ")))
            .arg(1));
        }
        let modes: Vec<Layout> =
            order.iter().map(|&mode| self.layout.mode(mode)).collect::<std::result::Result<_, _>>()?;
        Ok(self.rearranged(Layout::from_modes(modes)?))
    }

    /// Broadcasts modes of extent 1 to the modes of another view. One element that all of several elements meet is a number, without
    /// coordinates.
    pub fn spread(&self, like: &View) -> Result<View> {
        if self.rank() != like.rank() {
            return Ok(self.clone());
        }
        let is_number = self.layout.size() == Ok(1) && like.layout.size() != Ok(1);
        let modes = self.layout.modes().zip(like.layout.modes()).map(|(own, other)| {
            match (own.size(), other.size()) {
                (Ok(1), Ok(wide)) if wide > 1 || is_number => Layout::new(wide, 0i64),
                _ => Ok(own),
            }
        });
        let modes: Vec<Layout> = modes.collect::<std::result::Result<_, _>>()?;
        Ok(View { layout: Layout::from_modes(modes)?, ..self.clone() })
    }

    /// Is it one element, however often?
    pub fn is_one_element(&self) -> bool {
        self.layout.leaves().all(|(_, stride)| stride == Value::Int(0))
    }

    /// One element as a tile of this rank, with extent 1 in every mode, so that functions can broadcast it.
    pub fn everywhere(&self, rank: usize) -> Result<View> {
        let one = Layout::new(1i64, 0i64)?;
        Ok(self.rearranged(Layout::from_modes(vec![one; rank])?))
    }

    /// A vector along `mode` of a matrix, with extent 1 in the other, so that functions can broadcast it.
    pub fn along(&self, mode: i64) -> Result<View> {
        if self.rank() != 1 {
            let (name, shape) = (&self.name, self.shape());
            let problem = Problem::new(format!(
                "`along` takes a vector, and `{name}` has {}: {shape}",
                count(self.rank(), "mode")
            ));
            let help = "leave it out: modes of extent 1 are as wide as those of other tiles";
            return Err(match shape.to_string().strip_suffix(')') {
                Some(modes) if self.rank() > 1 => {
                    problem.help(format!("{help}; one mode more has regroup({name}, {modes},1))"))
                }
                _ => problem.help(help),
            });
        }
        let Some(mode) = usize::try_from(mode).ok().filter(|mode| *mode < MOST_MODES) else {
            return Err(Problem::new(format!("a tile has the modes 0..{MOST_MODES}, and this is {mode}"))
                .help("write `along(1)` for what stands along the columns of a matrix")
                .arg(0));
        };
        let one = Layout::new(1i64, 0i64)?;
        let mut modes = vec![one; (mode + 1).max(2)];
        modes[mode] = self.layout.mode(0)?;
        Ok(self.rearranged(Layout::from_modes(modes)?))
    }

    /// The broadcast shape of several views: each mode as wide as the widest of them.
    ///
    /// ```
    /// use tilewright_codegen::view::View;
    /// let view = |shape: (i64, i64)| View::whole(0, "x", &shape.into());
    /// let (column, row) = (view((4, 1))?, view((1, 8))?);
    /// assert_eq!(View::joint_shape(&[column, row]), (4i64, 8i64).into());
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn joint_shape(views: &[View]) -> Tuple {
        let Some(first) = views.first() else { return Tuple::of([]) };
        if views.iter().any(|view| view.rank() != first.rank()) {
            return first.shape();
        }
        let shapes: Vec<Tuple> = views.iter().map(View::shape).collect();
        let widest = |mode: usize| {
            let modes = shapes.iter().filter_map(|shape| shape.modes().nth(mode));
            modes.reduce(|best, other| if best.product() == Some(1) { other } else { best })
        };
        Tuple::of((0..first.rank()).filter_map(widest))
    }

    /// Another layout of the same coordinates, such as a thread-value layout or a regrouping.
    pub fn rearranged(&self, layout: Layout) -> View {
        View { layout, ..self.clone() }
    }

    /// Broadcasts to a larger shape: the modes of the view in order, and further modes, whose extents are
    /// given, of stride 0.
    pub fn broadcast(&self, shape: &[Option<i64>]) -> Result<View> {
        let own = shape.iter().filter(|extent| extent.is_none()).count();
        if own != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {}, {}, and the shape has `_` for {}",
                self.name,
                count(self.rank(), "mode"),
                self.shape(),
                count(own, "mode")
            ))
            .help("write `_` for each mode of the tensor, and the extents of the others: broadcast(bias, (BM, _))")
            .arg(1));
        }
        let mut own = self.layout.modes();
        let modes: Vec<Layout> = shape
            .iter()
            .map(|extent| match extent {
                Some(n) => Ok(Layout::new(*n, 0i64)?),
                None => own.next().ok_or_else(|| Problem::new("there is no such mode")),
            })
            .collect::<Result<_>>()?;
        Ok(self.rearranged(Layout::from_modes(modes)?))
    }

    /// The elements of a view of one mode, in order, assigned to the different offsets of a layout: broadcast
    /// along its modes of stride 0.
    pub fn repeated(&self, like: &Layout) -> Result<View> {
        let mut step = 1;
        let mut counted = |(extent, stride): (Value, Value)| -> Result<Layout> {
            let Value::Int(count) = extent else {
                return Err(
                    Problem::new("a part of a tensor has a number of elements known at launch").arg(1)
                );
            };
            let (own, moves) = (step, !stride.is_zero());
            step *= if moves { count } else { 1 };
            Ok(Layout::new(count, if moves { own } else { 0 })?)
        };
        let mut mode = |mode: Layout| -> Result<Layout> {
            let mut leaves = mode.leaves().map(&mut counted).collect::<Result<Vec<_>>>()?;
            Ok(if leaves.len() == 1 { leaves.remove(0) } else { Layout::from_modes(leaves)? })
        };
        let modes = like.modes().map(&mut mode).collect::<Result<Vec<_>>>()?;
        Ok(self.rearranged(self.layout.composition(Layout::from_modes(modes)?)?))
    }

    /// Is it broadcast: do several of its elements alias one of the tensor?
    pub fn repeats(&self) -> bool {
        self.layout.leaves().any(|(extent, stride)| stride == Value::Int(0) && extent != Value::Int(1))
    }
}

#[cfg(test)]
mod tests {
    use crate::build::Builder;
    use crate::values::elem::Elem;

    #[test]
    fn vectors_stand_along_one_mode() {
        let mut b = Builder::new("example");
        let row = b.tensor("row", Elem::F32, (4i64,), None, false).and_then(|row| row.along(1)).unwrap();
        assert_eq!(row.shape().to_string(), "(1,4)");
        let reported = row.along(2).unwrap_err();
        assert_eq!(reported.message, "`along` takes a vector, and `row` has 2 modes: (1,4)");
        assert_eq!(
            reported.help.unwrap_or_default(),
            "leave it out: modes of extent 1 are as wide as those of other tiles; one mode more has regroup(row, (1,4,1))"
        );
    }
}
