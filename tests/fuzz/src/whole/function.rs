//! Calls.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Device, DeviceType, Expr, ExprKind, Name, Pattern};
use tilewright_codegen::thread::{Bin, Cmp};

use super::Num;
use super::element;
use super::number::decides;
use super::value::{Along, Cell, Elements, OutOfBounds, Store, Type, Value, View, digits};
use super::{Block, Result, undefined};

/// The argument with the number that out-of-bounds elements are.
pub(super) const CLAIM: &str = "out_of_bounds";

/// An argument by its name.
pub(super) fn named<'k>(args: &'k [Arg], key: &str) -> Option<&'k Expr> {
    args.iter().find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key)).map(|arg| &arg.value)
}

/// An argument by its position.
fn argument<'k>(function: &str, args: &'k [Arg], n: usize) -> Result<&'k Expr> {
    match args.get(n).filter(|arg| arg.name.is_none()) {
        Some(arg) => Ok(&arg.value),
        None => undefined(format!("an argument of `{function}` is missing")),
    }
}

/// A value, or the entries of a tuple.
pub(super) fn entries(of: Value<'_>) -> Vec<Value<'_>> {
    if let Value::Tuple(all) = of { all } else { vec![of] }
}

impl<'k> Block<'k> {
    pub(super) fn call(&mut self, name: &str, types: &[Name], args: &'k [Arg]) -> Result<Value<'k>> {
        let of = |n| argument(name, args, n);
        if let ("unpack_int4", [kind, elem]) = (name, types) {
            return self.unpacked(kind.text == "i4", self.elem(&elem.text)?, of(0)?);
        }
        let elem = types.first().map(|name| self.elem(&name.text)).transpose()?;
        match name {
            name if name.starts_with("warp_") || name.starts_with("block_") => self.over_lanes(name, args),
            "parallelize" if self.has_threads => {
                let view = self.view(of(0)?)?;
                self.part(&view, args)
            }
            // One element for each thread: the part of all threads is the tile.
            "parallelize" => {
                let (view, threads) = (self.view(of(0)?)?, self.sizes(of(1)?)?);
                match view.sizes == threads {
                    true => Ok(Value::View(view)),
                    false => undefined("parts of several elements"),
                }
            }
            "walk" => self.walked(of(0)?, of(1)?),
            "signal" => self.signalled(of(0)?),
            "wait" => self.awaited(of(0)?, of(1)?),
            "tiled_mma" | "threads" | "persistent" | "raster" | "cluster" | "at_most" | "at_least"
            | "assert" | "assert_device" | "print" | "sync_threads" | "blocks_per_sm" | "stage"
            | "cp_async_commit" | "cp_async_wait" | "cp_async_wait_all" => Ok(Value::Unit),
            "pipelined" | "unroll" => self.value(of(0)?),
            "layout" | "padded" | "row_major" => self.value(of(0)?),
            "swizzled" => self.value(of(3)?),
            "tile" | "shift" | "permute" | "regroup" => Ok(Value::View(self.view_of(name, args)?)),
            "shared" | "full" | "registers" | "registers_like" | "iota" => self.storage(name, elem, args),
            "broadcast" => self.repeated(of(0)?, of(1)?),
            "copy" => self.copy(of(0)?, of(1)?, args),
            "fill" => self.fill(of(0)?, of(1)?),
            "map" => self.map(args),
            "scatter" => self.scatter(args),
            "sum" | "maximum" | "minimum" => self.reduced(name, args),
            "reduce" => self.folded(args),
            "scan" => self.scanned(args),
            "gemm" => self.multiplied(args),
            "asm" => self.modelled(args),
            "bits" => {
                let given = self.value(of(0)?)?;
                let given = self.elements(&given)?;
                let (Some(from), Some(to)) = (given.ty.elem(), elem) else { return undefined("no type") };
                Ok(Value::Elements(element::each(&[&given], Type::Elem(to), &|x| x[0].bits(from, to))?))
            }
            "ceil_div" => {
                let (a, b) = (self.integer(of(0)?)?, self.integer(of(1)?)?);
                Ok(Value::Integer((a + b - 1).div_euclid(b)))
            }
            _ => match self.lookup(name) {
                Some(Value::Closure(params, body)) => {
                    let values = args.iter().map(|arg| self.value(&arg.value)).collect::<Result<_>>()?;
                    self.applied((params, body), values)
                }
                _ => match device(&self.kernel.devices, name) {
                    Some(device) => self.device(device, args),
                    None => self.number(name, args),
                },
            },
        }
    }

    /// A view of a tile or an argument.
    fn view_of(&mut self, name: &str, args: &'k [Arg]) -> Result<View> {
        let of = |n| argument(name, args, n);
        let view = self.view(of(0)?)?;
        match name {
            "shift" => {
                let by = self.numbers(of(1)?)?;
                self.shift(&view, &by)
            }
            "permute" => {
                let order: Vec<usize> = self.numbers(of(1)?)?.into_iter().map(|n| n as usize).collect();
                let sizes = order.iter().map(|&mode| view.sizes[mode]).collect();
                let from: Vec<Option<usize>> = order.into_iter().map(Some).collect();
                Ok(view.reshaped(sizes, &from))
            }
            "regroup" => {
                let sizes = self.sizes(of(1)?)?;
                Ok(view.regrouped(sizes))
            }
            _ => {
                let tile = self.numbers(of(1)?)?;
                let outer = std::mem::replace(&mut self.integers, true);
                let at = self.value(of(2)?);
                self.integers = outer;
                let at = entries(at?);
                let at = at.into_iter().map(|at| self.coordinate(at)).collect::<Result<Vec<_>>>()?;
                let halo = match named(args, "halo") {
                    Some(halo) => self.halo(halo, tile.len())?,
                    None => Vec::new(),
                };
                self.tile(&view, &tile, &at, &halo)
            }
        }
    }

    /// A new tile in shared memory or in registers.
    fn storage(&mut self, name: &str, elem: Option<Elem>, args: &'k [Arg]) -> Result<Value<'k>> {
        let of = |n| argument(name, args, n);
        let (sizes, elem) = match name {
            "registers_like" => {
                let like = self.view(of(0)?)?;
                (like.sizes, elem.or(Some(like.elem)))
            }
            "iota" => (self.sizes(of(0)?)?, Some(Elem::I32)),
            _ => (self.sizes(of(0)?)?, elem),
        };
        let Some(elem) = elem else { return undefined("no type") };
        let count = sizes.iter().product::<i64>();
        let cells = match name {
            "shared" => {
                let store = Store::Shared(vec![None; count as usize]);
                return Ok(Value::View(self.memory(elem, &sizes, store)));
            }
            "iota" => {
                let mode = if args.len() == 1 { 0 } else { self.integer(of(1)?)? as usize };
                let cell = |n| Some(Cell::of(Num::exact(digits(&sizes, n)[mode] as f64)));
                (0..count).map(cell).collect()
            }
            _ => {
                let value = self.value(of(1)?)?;
                let value = self.elements(&value)?.as_type(elem)?;
                vec![Some(Cell { at: None, filled: true, ..value.cells[0].clone() }); count as usize]
            }
        };
        Ok(Value::View(self.fresh(elem, &sizes, cells)))
    }

    fn fill(&mut self, to: &'k Expr, value: &'k Expr) -> Result<Value<'k>> {
        let to = self.view(to)?;
        let value = self.value(value)?;
        let value = self.elements(&value)?.as_type(to.elem)?;
        let cell = Cell { at: None, out_of_bounds: OutOfBounds::No, filled: true, ..value.cells[0].clone() };
        let cells = vec![cell; to.sizes.iter().product::<i64>() as usize];
        let sizes = to.sizes.clone();
        self.write(&to, &Elements { sizes, ty: value.ty, cells, argument: false })?;
        Ok(Value::Unit)
    }

    /// A function that kernels share. Types of its own are not known.
    fn device(&mut self, device: &'k Device, args: &'k [Arg]) -> Result<Value<'k>> {
        let depth = self.scopes[self.thread].len();
        let mut values = Vec::new();
        for (param, arg) in device.params.iter().zip(args) {
            let value = match &param.ty {
                DeviceType::Number(elem) => {
                    let (elem, value) = (self.elem(&elem.text)?, self.value(&arg.value)?);
                    Value::Elements(self.elements(&value)?.as_type(elem)?)
                }
                DeviceType::Closure => match self.closure(&arg.value) {
                    Some((params, body)) => Value::Closure(params, body),
                    None => return undefined("no closure"),
                },
                _ => self.value(&arg.value)?,
            };
            values.push((param.name.text.clone(), value));
        }
        if !device.body.is_empty() && self.running.len() > 1 {
            return undefined("a function with statements of several threads");
        }
        let integers = std::mem::replace(&mut self.integers, false);
        let is_closure = self.in_closure || device.body.is_empty();
        let outer = std::mem::replace(&mut self.in_closure, is_closure);
        self.scopes[self.thread].extend(values);
        let value = device.body.iter().try_for_each(|stmt| self.statement(stmt));
        let value = value.and_then(|()| self.value(&device.value));
        self.scopes[self.thread].truncate(depth);
        self.integers = integers;
        self.in_closure = outer;
        value
    }

    /// `asm::<i32>("…", a, b, model = |a, b| …)`
    fn modelled(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        let Some(ExprKind::Closure { params, body }) = named(args, "model").map(|model| &model.kind) else {
            return undefined("an instruction without a model");
        };
        let operands = args.iter().skip(1).filter(|arg| arg.name.is_none());
        let operands = operands.map(|arg| self.value(&arg.value)).collect::<Result<_>>()?;
        self.applied((params, body), operands)
    }

    /// `broadcast(bias, (BM, _))`
    fn repeated(&mut self, of: &'k Expr, shape: &'k Expr) -> Result<Value<'k>> {
        let view = self.view(of)?;
        let Value::Tuple(shape) = self.value(shape)? else { return undefined("no shape") };
        let (mut sizes, mut from, mut next) = (Vec::new(), Vec::new(), 0);
        for extent in shape {
            match extent.int() {
                Some(n) => {
                    sizes.push(n as i64);
                    from.push(None);
                }
                None => {
                    sizes.push(view.sizes[next]);
                    from.push(Some(next));
                    next += 1;
                }
            }
        }
        Ok(Value::View(view.reshaped(sizes, &from)))
    }

    /// `mma.accumulators((BM, BN), 0.0)`, of floating-point or of integer literals.
    pub(super) fn sums(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        let sizes = self.sizes(&args[0].value)?;
        let value = self.value(&args[1].value)?;
        let elem = if matches!(value, Value::Int(_)) { Elem::I32 } else { Elem::F32 };
        let cell = Cell::of(self.elements(&value)?.as_type(elem)?.cells[0].num);
        let count = sizes.iter().product::<i64>() as usize;
        Ok(Value::View(self.fresh(elem, &sizes, vec![Some(cell); count])))
    }

    /// A function of numbers.
    fn number(&mut self, name: &str, args: &'k [Arg]) -> Result<Value<'k>> {
        let given = args.iter().map(|arg| self.value(&arg.value)).collect::<Result<Vec<_>>>()?;
        if let ("min" | "max", [x, y]) = (name, &given[..]) {
            let reads = !self.in_closure
                && [x, y].into_iter().any(|of| matches!(of, Value::View(_)))
                && self.is_integer(x)
                && self.is_integer(y);
            let whole = |of: &Value<'k>| match of {
                Value::Int(n) | Value::Integer(n) => Some(*n),
                other if self.integers || reads => self.whole_number(other),
                _ => None,
            };
            if let (Some(a), Some(b)) = (whole(x), whole(y)) {
                let made = if name == "min" { a.min(b) } else { a.max(b) };
                return Ok(match (x, y) {
                    (Value::Int(_), Value::Int(_)) => Value::Int(made),
                    _ => Value::Integer(made),
                });
            }
        }
        let given = given.iter().map(|value| self.elements(value)).collect::<Result<Vec<_>>>()?;
        Ok(Value::Elements(element::function(name, &given.iter().collect::<Vec<_>>())?))
    }

    /// An entry of a tile's coordinate.
    fn coordinate(&self, of: Value<'k>) -> Result<Value<'k>> {
        match of {
            Value::Hole => Ok(Value::Hole),
            other => match self.index_number(&other) {
                Some(n) => Ok(Value::Integer(n)),
                None => undefined("a coordinate is no integer"),
            },
        }
    }

    pub(super) fn view(&mut self, of: &'k Expr) -> Result<View> {
        let value = self.value(of)?;
        self.as_view(value)
    }

    pub(super) fn as_view(&mut self, of: Value<'k>) -> Result<View> {
        match of {
            Value::View(view) => Ok(view),
            Value::Elements(of) => match self.settled(of)? {
                Value::View(view) => Ok(view),
                _ => undefined("a number is no tile"),
            },
            _ => undefined("no tile"),
        }
    }

    pub(super) fn numbers(&mut self, of: &'k Expr) -> Result<Vec<i128>> {
        let all = entries(self.value(of)?);
        all.iter()
            .map(|of| match self.whole_number(of) {
                Some(n) => Ok(n),
                None => undefined("no integer"),
            })
            .collect()
    }

    /// A shape; nested modes are one.
    pub(super) fn sizes(&mut self, of: &'k Expr) -> Result<Vec<i64>> {
        let all = match self.value(of)? {
            Value::Layout(layout) => {
                return Ok(layout.modes().map(|mode| mode.size().unwrap_or(0)).collect());
            }
            other => entries(other),
        };
        all.into_iter()
            .map(|of| {
                let leaves = entries(of);
                let leaves: Option<Vec<i128>> = leaves.iter().map(Value::int).collect();
                match leaves {
                    Some(leaves) => Ok(leaves.into_iter().product::<i128>() as i64),
                    None => undefined("no shape"),
                }
            })
            .collect()
    }

    /// Elements before and after, for each mode.
    fn halo(&mut self, of: &'k Expr, rank: usize) -> Result<Vec<(i128, i128)>> {
        let all = match self.value(of)? {
            Value::Tuple(all) => all,
            one => vec![one; rank],
        };
        all.into_iter()
            .map(|of| {
                let sides = entries(of);
                match (sides.first().and_then(Value::int), sides.last().and_then(Value::int)) {
                    (Some(before), Some(after)) => Ok((before, after)),
                    _ => undefined("no halo"),
                }
            })
            .collect()
    }

    fn copy(&mut self, from: &'k Expr, to: &'k Expr, args: &'k [Arg]) -> Result<Value<'k>> {
        let fill = match named(args, "fill") {
            Some(fill) => {
                let fill = self.value(fill)?;
                self.elements(&fill)?.cells[0].num.value
            }
            None => 0.0,
        };
        let from = match self.value(from)? {
            Value::View(view) if named(args, "clamp").is_some() => {
                let mut read = self.read(&self.clamped(&view)?, fill)?;
                // Their values come from elements in bounds, but they are out of bounds themselves.
                for (cell, spot) in read.cells.iter_mut().zip(view.spots().iter()) {
                    if spot.position.is_none() {
                        cell.out_of_bounds = OutOfBounds::Perhaps;
                    }
                }
                read
            }
            Value::View(view) => self.read(&view, fill)?,
            other => self.elements(&other)?,
        };
        let to = self.view(to)?;
        let from = from.cast(to.elem)?;
        let Some(how) = self.updates(args)? else {
            self.write(&to, &from)?;
            return Ok(Value::Unit);
        };
        let mut old = Vec::new();
        for (n, spot) in to.spots().iter().enumerate() {
            let cell = from.cells[from.broadcast(&to.sizes, n)?].clone();
            let adds_zero = cell.num == Num::exact(0.0) && matches!(how, Atomic::By(Bin::Add));
            let mut position = spot.position;
            if position.is_some() && cell.is_outside() && !adds_zero {
                if !decides() {
                    return undefined("an update by what is out of bounds");
                }
                position = position.filter(|_| cell.out_of_bounds == OutOfBounds::Perhaps);
            }
            let num = self.update(&to, position, cell.num, how)?;
            old.push(Some(match spot.position {
                Some(_) => Cell::of(num),
                None => Cell::unclear(num),
            }));
        }
        Ok(Value::View(self.fresh(to.elem, &to.sizes, old)))
    }

    /// The update that `how = "…"` names.
    fn updates(&mut self, args: &'k [Arg]) -> Result<Option<Atomic>> {
        Ok(Some(match named(args, "how").map(|how| self.value(how)).transpose()? {
            Some(Value::Text("atomic_add")) => Atomic::By(Bin::Add),
            Some(Value::Text("atomic_sub")) => Atomic::By(Bin::Sub),
            Some(Value::Text("atomic_min")) => Atomic::By(Bin::Min),
            Some(Value::Text("atomic_max")) => Atomic::By(Bin::Max),
            Some(Value::Text("atomic_and")) => Atomic::By(Bin::And),
            Some(Value::Text("atomic_or")) => Atomic::By(Bin::Or),
            Some(Value::Text("atomic_xor")) => Atomic::By(Bin::Xor),
            Some(Value::Text("atomic_exchange")) => Atomic::Exchange,
            Some(Value::Text("atomic_compare_exchange")) => {
                let Some(expected) = named(args, "expected") else {
                    return undefined("no element is expected");
                };
                match self.value(expected)?.int() {
                    Some(n) => Atomic::Compare(Num::whole(n)),
                    None => return undefined("a tile of expected elements"),
                }
            }
            _ => return Ok(None),
        }))
    }

    /// Updates an element of memory; its old value, 0 if there is no such element.
    pub(super) fn update(&mut self, to: &View, index: Option<usize>, by: Num, how: Atomic) -> Result<Num> {
        let Some(index) = index.filter(|_| !self.supposed) else { return Ok(Num::exact(0.0)) };
        let updated = |before: Num| match how {
            Atomic::By(with) => Num::bin(with, before, by, to.elem),
            Atomic::Exchange => by,
            Atomic::Compare(expected) => Num::pick(Num::cmp(Cmp::Eq, before, expected), by, before),
        };
        match &mut self.stores[to.store] {
            Store::Global(buffer) => {
                let index = buffer.index_of(index);
                let Some(before) = buffer.all[index] else { return undefined("a gap is updated") };
                buffer.all[index] = Some(updated(before));
                Ok(before)
            }
            Store::Shared(cells) | Store::Registers(cells) => {
                let Some(before) = &cells[index] else { return undefined("an update before a write") };
                let old = before.num;
                cells[index] = Some(Cell { num: updated(old), ..before.clone() });
                Ok(old)
            }
        }
    }

    /// `unpack_int4::<i4, bf16>(bytes)`: a byte has two neighbours along the last mode, the first in its lower bits.
    fn unpacked(&mut self, signed: bool, elem: Elem, bytes: &'k Expr) -> Result<Value<'k>> {
        let value = self.value(bytes)?;
        let mut all = self.elements(&value)?;
        let rows = all.sizes.split_last().map_or(1, |(_, rows)| rows.iter().product::<i64>()) as usize;
        let half = |cell: &Cell, high: bool| {
            let Some(byte) = cell.num.int() else { return undefined("a byte of unknown bits") };
            let nibble = (byte >> if high { 4 } else { 0 }) & 15;
            let number = if signed && nibble > 7 { nibble - 16 } else { nibble };
            Ok(Cell { num: Num::integer(number, Elem::I32).cast(Elem::I32, elem), ..cell.clone() })
        };
        let mut cells = Vec::new();
        for column in all.cells.chunks(rows) {
            for high in [false, true] {
                cells.extend(column.iter().map(|cell| half(cell, high)).collect::<Result<Vec<_>>>()?);
            }
        }
        if let Some(last) = all.sizes.last_mut() {
            *last *= 2;
        }
        Ok(Value::Elements(Elements { ty: Type::Elem(elem), cells, ..all }))
    }

    /// The value of a closure of elements.
    pub(super) fn applied(
        &mut self,
        (params, body): (&'k [Pattern], &'k Expr),
        values: Vec<Value<'k>>,
    ) -> Result<Value<'k>> {
        if params.len() != values.len() {
            return undefined("a closure with other parameters");
        }
        let depth = self.scopes[self.thread].len();
        let integers = std::mem::replace(&mut self.integers, false);
        let outer = std::mem::replace(&mut self.in_closure, true);
        for (pattern, value) in params.iter().zip(values) {
            self.bind(pattern, value)?;
        }
        let value = self.value(body);
        self.scopes[self.thread].truncate(depth);
        self.integers = integers;
        self.in_closure = outer;
        value
    }

    /// The tiles of a function of elements, its closure's value, and whether the closure has coordinates.
    fn of_elements(&mut self, args: &'k [Arg]) -> Result<(Vec<Elements>, Value<'k>, bool)> {
        let given = entries(self.value(&args[0].value)?);
        let ins = given.iter().flat_map(leaves).map(|of| self.elements(&of)).collect::<Result<Vec<_>>>()?;
        let closure = args.iter().find_map(|arg| self.closure(&arg.value));
        let Some(closure) = closure else { return undefined("no closure") };
        let mut elements = ins.iter().cloned().map(Value::Elements);
        let mut values: Vec<Value<'k>> = given.iter().map(|of| shaped_as(of, &mut elements)).collect();
        let reads = closure.0.len() > values.len();
        if reads {
            values.push(coordinates(&ins)?);
        }
        let value = self.applied(closure, values)?;
        Ok((ins, value, reads))
    }

    fn map(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        let (ins, value, reads) = self.of_elements(args)?;
        let shape = value.clone();
        let to = match args.len() {
            2 => None,
            _ => Some(self.value(&args[1].value)?),
        };
        let to: Option<Vec<Value<'k>>> = to.map(entries);
        let all: Vec<&Elements> = ins.iter().collect();
        let mut made = Vec::new();
        for (n, value) in leaves(&value).into_iter().enumerate() {
            let value = self.elements(&value)?;
            let elem = match (&to, value.ty) {
                (Some(to), _) => match &to[n] {
                    Value::View(view) => view.elem,
                    _ => return undefined("no tile is written"),
                },
                (None, Type::Elem(elem)) => elem,
                (None, Type::Condition) => Elem::Bool,
                // Literals alone are of the type of a sum.
                (None, _) => match ins[0].ty.elem() {
                    Some(elem) => elem.accumulator(),
                    None => return undefined("no type"),
                },
            };
            let value = value.as_type(elem)?;
            made.push(inputs_outside(&all, &value, reads)?);
        }
        match to {
            Some(to) => {
                for (to, value) in to.iter().zip(&made) {
                    let Value::View(view) = to else { return undefined("no tile is written") };
                    self.write(view, value)?;
                }
                Ok(Value::Unit)
            }
            None => {
                let made = made.into_iter().map(|of| self.settled(of)).collect::<Result<Vec<_>>>()?;
                Ok(shaped_as(&shape, &mut made.into_iter()))
            }
        }
    }

    fn scatter(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        if self.supposed {
            return Ok(Value::Unit);
        }
        let (ins, value, _) = self.of_elements(args)?;
        let Value::Tuple(pair) = value else { return undefined("a scatter without a pair") };
        let [at, value] = &pair[..] else { return undefined("a scatter without a pair") };
        let to = self.view(&args[1].value)?;
        let indices = entries(at.clone());
        let indices = indices.iter().map(|of| self.elements(of)).collect::<Result<Vec<_>>>()?;
        let value = self.elements(value)?.as_type(to.elem)?;
        let all: Vec<&Elements> = ins.iter().collect();
        let sizes = element::joint(&all)?;
        let says = named(args, CLAIM).is_some();
        let how = self.updates(args)?;
        let mut old: Vec<Option<Cell>> = Vec::new();
        let mut seen = std::collections::BTreeMap::new();
        for n in 0..sizes.iter().product::<i64>() as usize {
            let mut out_of_bounds = OutOfBounds::No;
            for of in &all {
                out_of_bounds =
                    element::either(out_of_bounds, of.cells[of.broadcast(&sizes, n)?].out_of_bounds);
            }
            let mut at = Vec::new();
            for position in &indices {
                let num = position.cells[position.broadcast(&sizes, n)?].num;
                at.push(num.int());
            }
            // Elements that are not stored have the old value 0.
            let unstored = Cell { out_of_bounds, ..Cell::of(Num::exact(0.0)) };
            old.push(Some(unstored.clone()));
            match out_of_bounds {
                OutOfBounds::Yes if !says => continue,
                OutOfBounds::No => {}
                _ if says => {}
                _ if decides() => {}
                _ => return undefined("a scatter of what may be out of bounds"),
            }
            if at.contains(&None) {
                return undefined("a place is not known");
            }
            let one = to.sliced(&at);
            let Some(position) = one.spots()[0].position else { continue };
            let cell = value.cells[value.broadcast(&sizes, n)?].clone();
            let again = seen.insert(position, n);
            if let Some(how) = how {
                let num = self.update(&to, Some(position), cell.num, how)?;
                // The first of several updates is not known, nor the last of several exchanges.
                if again.is_some() && !matches!(how, Atomic::By(_)) {
                    return undefined("two exchanges have the same index");
                }
                old[n] = Some(Cell { num, ..unstored });
                for one in again.into_iter().flat_map(|before| [before, n]) {
                    old[one] = old[one].take().map(|cell| Cell { num: Num::UNKNOWN, ..cell });
                }
                continue;
            }
            if again.is_some() {
                return undefined("two elements have the same place");
            }
            self.write(
                &one,
                &Elements { sizes: vec![1], ty: value.ty, cells: vec![Cell::of(cell.num)], argument: false },
            )?;
        }
        Ok(if how.is_some() { Value::View(self.fresh(to.elem, &sizes, old)) } else { Value::Unit })
    }
}

/// The entries of a tuple and of the tuples in it.
pub(super) fn leaves<'k>(of: &Value<'k>) -> Vec<Value<'k>> {
    match of {
        Value::Tuple(all) => all.iter().flat_map(leaves).collect(),
        one => vec![one.clone()],
    }
}

/// A function that kernels share, by its name, also one that another uses.
fn device<'k>(devices: &'k [Device], name: &str) -> Option<&'k Device> {
    let imported = devices.iter().find(|device| device.name.text == name);
    imported.or_else(|| devices.iter().find_map(|user| device(&user.devices, name)))
}

/// A value with other leaves.
fn shaped_as<'k>(of: &Value<'k>, leaves: &mut dyn Iterator<Item = Value<'k>>) -> Value<'k> {
    match of {
        Value::Tuple(all) => Value::Tuple(all.iter().map(|of| shaped_as(of, leaves)).collect()),
        _ => leaves.next().unwrap_or(Value::Unit),
    }
}

/// An atomic update.
#[derive(Clone, Copy)]
pub(super) enum Atomic {
    By(Bin),
    Exchange,
    /// Exchanges an element that equals this one.
    Compare(Num),
}

/// Elements of functions count as out of bounds where an operand does, also one that the function does not use.
fn inputs_outside(ins: &[&Elements], value: &Elements, reads: bool) -> Result<Elements> {
    let mut all = vec![value];
    all.extend(ins);
    let sizes = element::joint(&all)?;
    let mut cells = Vec::new();
    for n in 0..sizes.iter().product::<i64>() as usize {
        let mut cell = value.cells[value.broadcast(&sizes, n)?].clone();
        for of in ins {
            let from = &of.cells[of.broadcast(&sizes, n)?];
            if cell.out_of_bounds == OutOfBounds::No {
                cell.out_of_bounds = from.out_of_bounds;
            }
        }
        let given =
            all.iter().map(|of| Ok(&of.cells[of.broadcast(&sizes, n)?])).collect::<Result<Vec<_>>>()?;
        // The coordinates of the operands, since arithmetic may have passed them on in another order.
        cell.at = element::located(&all[1..], &given[1..], &sizes, reads);
        cells.push(cell);
    }
    Ok(Elements { sizes, ty: value.ty, cells, argument: false })
}

/// The coordinates of elements: along each mode from the first tile that has some, else the coordinates in the tile.
fn coordinates<'k>(ins: &[Elements]) -> Result<Value<'k>> {
    let all: Vec<&Elements> = ins.iter().collect();
    let sizes = element::joint(&all)?;
    let mut modes: Vec<Vec<Cell>> = vec![Vec::new(); sizes.len()];
    let mut mixed = vec![false; sizes.len()];
    for n in 0..sizes.iter().product::<i64>() as usize {
        let given =
            all.iter().map(|of| Ok(&of.cells[of.broadcast(&sizes, n)?])).collect::<Result<Vec<_>>>()?;
        let at = element::located(&all, &given, &sizes, true);
        for (mode, own) in digits(&sizes, n as i64).into_iter().enumerate() {
            let num = match at.as_ref().map_or(Along::Own, |at| at[mode]) {
                Along::Own => Num::exact(own as f64),
                Along::In(at, _) => Num::integer(at, Elem::I32),
                Along::Unclear => Num::UNKNOWN,
                Along::Mixed(..) => {
                    mixed[mode] = true;
                    Num::UNKNOWN
                }
            };
            modes[mode].push(Cell::of(num));
        }
    }
    let mode = |(cells, is_mixed)| match is_mixed {
        true => Value::MixedCoordinates,
        false => Value::Elements(Elements {
            sizes: sizes.clone(),
            ty: Type::Elem(Elem::I32),
            cells,
            argument: false,
        }),
    };
    Ok(Value::Tuple(modes.into_iter().zip(mixed).map(mode).collect()))
}
