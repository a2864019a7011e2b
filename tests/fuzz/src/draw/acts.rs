//! Acts without products: tiles that pass through several memories, with functions and reductions, and loops
//! that gather tiles.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr, ExprKind, Stmt};

use super::form::Form;
use super::scene::{ELEMS, Part, Scene};
use super::tree::{
    assign, binary, call, choice, effect, hole, index, int, literal, method, name, range, repeat, text,
    tuple, with,
};

/// Are all warps full?
fn warps(threads: i64) -> bool {
    threads % 32 == 0
}

impl Scene {
    /// Loads a tile, passes it through several steps and stores it.
    pub(super) fn chain(&mut self, mut form: Form) {
        let narrow = form.values.iter().any(|&n| n >= 8) && self.random.chance(75);
        let elem = if narrow { self.random.pick(&[Elem::I8, Elem::U8, Elem::F16]) } else { self.elem() };
        let mut part = self.input(&form, elem, 0);
        if self.random.chance(15) {
            part = self.in_registers(&part);
            part = self.reduced(&part);
        }
        for _ in 0..self.random.below(5) {
            match self.random.below(100) {
                0..22 => part = self.in_registers(&part),
                22..45 => part = self.mapped(&part, &form),
                45..70 if form.is_exclusive() => (part, form) = self.through_shared(&part, &form),
                70..78 => part = self.changed(&part, &form),
                78..97 if part.is_registers => part = self.reduced(&part),
                _ => part = self.by_rows(&part),
            }
        }
        self.finish(&part, &form);
    }

    /// A reduction across the threads, as in softmax and norms.
    pub(super) fn combined(&mut self) {
        let form = self.form();
        let elem = self.elem();
        let part = self.input(&form, elem, 0);
        let mut part = self.in_registers(&part);
        for _ in 0..self.random.within(1, 2) {
            part = self.reduced(&part);
        }
        self.finish(&part, &form);
    }

    /// Stores a part; if several threads have the same element, it is partitioned anew.
    fn finish(&mut self, part: &Part, form: &Form) {
        if !form.is_exclusive() {
            // Only registers have separate elements for every thread.
            let Some(own) = (0..6).find_map(|_| self.otherwise(form).filter(Form::is_exclusive)) else {
                return;
            };
            let out = self.output(&own, part.elem);
            self.fill(&out);
            return;
        }
        let elem = if self.random.chance(85) { part.elem } else { self.elem() };
        let out = self.output(form, elem);
        match self.random.below(10) {
            0..6 => self.copy(part, &out),
            6..9 => {
                let mut ins = vec![part.clone()];
                if self.random.chance(30) {
                    ins.push(out.clone());
                }
                self.map_into(&ins, &out);
            }
            _ => {
                self.fill(&out);
                self.push(assign(name(&out.name), Some(Binary::Add), name(&part.name)));
            }
        }
    }

    fn fill(&mut self, out: &Part) {
        let value = literal(self.random.within(0, 3) as f64, out.elem);
        self.push(effect(call("fill", vec![name(&out.name), value])));
    }

    pub(super) fn copy(&mut self, from: &Part, to: &Part) {
        let copy = call("copy", vec![name(&from.name), name(&to.name)]);
        let copy = match self.random.below(12) {
            0 => with(copy, "how", text("plain")),
            1 => with(copy, "how", text("staged")),
            2..5 if from.is_global => {
                let fill = self.random.pick(&[1.0, 2.0, 0.0, 3.0]);
                with(copy, "fill", literal(fill, from.elem))
            }
            _ => copy,
        };
        self.push(effect(copy));
    }

    fn in_registers(&mut self, part: &Part) -> Part {
        let elem = if self.random.chance(85) { part.elem } else { self.elem() };
        let to = self.registers(elem, &part.shape, 0.0);
        self.copy(part, &to);
        to
    }

    fn map_into(&mut self, ins: &[Part], out: &Part) {
        let elems: Vec<Elem> = ins.iter().map(|part| part.elem).collect();
        let closure = self.closure(&elems, out.elem);
        let views = tuple(ins.iter().map(|part| name(&part.name)).collect());
        self.push(effect(call("map", vec![views, name(&out.name), closure])));
    }

    /// A function of a part, of similar ones, and of broadcast elements.
    fn mapped(&mut self, part: &Part, form: &Form) -> Part {
        let mut ins = vec![part.clone()];
        for _ in 0..self.random.weighted(&[(5, 0), (3, 1), (1, 2)]) {
            let other = match self.random.below(4) {
                0..2 => {
                    let elem = if self.random.chance(70) { part.elem } else { self.elem() };
                    self.input(form, elem, 0)
                }
                2 => {
                    let value = self.random.within(0, 3) as f64;
                    self.registers(part.elem, &part.shape, value)
                }
                _ => {
                    let wide = |scene: &mut Scene, n: i64| if scene.random.chance(50) { 1 } else { n };
                    let shape: Vec<i64> = part.shape.iter().map(|&n| wide(self, n)).collect();
                    let value = self.random.within(1, 3) as f64;
                    self.registers(part.elem, &shape, value)
                }
            };
            if other.shape.len() == part.shape.len() {
                ins.push(other);
            }
        }
        let elems: Vec<Elem> = ins.iter().map(|part| part.elem).collect();
        let closure = self.closure(&elems, part.elem);
        let views = tuple(ins.iter().map(|part| name(&part.name)).collect());
        let made = self.bind("m", call("map", vec![views, closure]));
        Part { name: made, is_registers: true, is_global: false, ..part.clone() }
    }

    /// Through shared memory, to another partition.
    fn through_shared(&mut self, part: &Part, form: &Form) -> (Part, Form) {
        let elem = if self.random.chance(85) { part.elem } else { self.elem() };
        let array = self.shared(elem, &form.tile);
        let to = self.bind("w", form.of(name(&array)));
        let to = Part { name: to, elem, is_registers: false, is_global: false, shape: form.shape() };
        match self.random.below(6) {
            0 => self.map_into(std::slice::from_ref(part), &to),
            _ => self.copy(part, &to),
        }
        if part.is_global {
            if self.random.chance(20) {
                self.push(effect(call("cp_async_commit", Vec::new())));
            }
            let wait = match self.random.chance(25) {
                true => call("cp_async_wait", vec![int(0)]),
                false => call("cp_async_wait_all", Vec::new()),
            };
            self.push(effect(wait));
        }
        self.push(effect(call("sync_threads", Vec::new())));
        match self.otherwise(form) {
            Some(other) if self.random.chance(70) => {
                let from = self.bind("q", other.of(name(&array)));
                (Part { name: from, shape: other.shape(), ..to }, other)
            }
            _ => (to, form.clone()),
        }
    }

    /// `r += x;` and its like.
    fn changed(&mut self, part: &Part, form: &Form) -> Part {
        let part = if part.is_registers { part.clone() } else { self.in_registers(part) };
        let op = self.random.pick(&[None, Some(Binary::Add), Some(Binary::Sub), Some(Binary::Mul)]);
        let value = match self.random.below(4) {
            0 => literal(self.random.within(1, 3) as f64, part.elem),
            1 => name(&self.scalar(part.elem)),
            _ => {
                let other = self.input(form, part.elem, 0);
                name(&other.name)
            }
        };
        let stmt = assign(name(&part.name), op, value);
        let stmt = self.perhaps(stmt, true);
        self.push(stmt);
        part
    }

    /// A reduction, broadcast back over the elements.
    fn reduced(&mut self, part: &Part) -> Part {
        let kinds = ["sum", "maximum", "minimum"];
        let kind = self.random.pick(&kinds);
        let whole = self.random.below(3);
        let (mut shape, mut elem, mut from) = (part.shape.clone(), part.elem, part.name.clone());
        if whole < 2 {
            let mut args = vec![name(&from)];
            if whole == 0 {
                let mode = self.random.below(part.shape.len());
                shape[mode] = 1;
                args.push(int(mode as i64));
            } else {
                shape.fill(1);
            }
            let made = self.reduction(kind, args, &mut elem);
            from = self.bind("e", made);
        }
        let across = match (warps(self.threads), self.random.below(4)) {
            (true, 0 | 1) => Some("warp"),
            (_, 2) => Some("block"),
            _ if whole == 2 => Some("block"),
            _ => None,
        };
        if let Some(across) = across {
            let kind = if self.random.chance(80) { kind } else { self.random.pick(&kinds) };
            let made = self.reduction(&format!("{across}_{kind}"), vec![name(&from)], &mut elem);
            from = self.bind("e", made);
        }
        let made = if self.random.chance(25) { self.folded(&from, &shape, elem) } else { from };
        let combined = Part { name: made, shape, elem, ..part.clone() };
        let ins = [part.clone(), combined];
        let closure = self.closure(&ins.each_ref().map(|part| part.elem), part.elem);
        let views = tuple(ins.iter().map(|part| name(&part.name)).collect());
        let made = self.bind("m", call("map", vec![views, closure]));
        Part { name: made, ..part.clone() }
    }

    /// Reductions of elements or pairs by closures.
    fn folded(&mut self, from: &str, shape: &[i64], elem: Elem) -> String {
        let (least, _) = crate::number::range(elem);
        let least = match elem {
            Elem::U32 | Elem::U8 => int(0),
            _ if elem.is_float() => super::tree::float(f64::NEG_INFINITY),
            _ => int(least as i64),
        };
        let (a, b) = (|| name("a"), || name("b"));
        let larger = choice(binary(Binary::Lt, a(), b()), b(), a());
        let function = match warps(self.threads) {
            true => self.random.pick(&["warp_reduce", "block_reduce"]),
            false => "block_reduce",
        };
        if self.random.chance(50) {
            let largest = super::tree::closure(&["a", "b"], larger);
            if self.random.chance(50) {
                let function =
                    if self.random.chance(50) { "scan" } else { &function.replace("reduce", "scan") };
                let made = call(function, vec![name(from), least, largest]);
                let made = match self.random.chance(50) {
                    true => super::tree::with(made, "exclusive", super::tree::expr(ExprKind::Bool(true))),
                    false => made,
                };
                return self.bind("e", made);
            }
            return self.bind("e", call(function, vec![name(from), least, largest]));
        }
        // The maximum, and its multiplicity.
        let ones = self.registers(elem, shape, 1.0);
        let pair = |x: Expr, y: Expr| tuple(vec![x, y]);
        let count = binary(Binary::Add, name("n"), name("m"));
        let both = super::tree::pairs([["a", "n"], ["b", "m"]], pair(larger, count));
        let given = pair(name(from), name(&ones.name));
        let made = call(function, vec![given, pair(least, literal(0.0, elem)), both]);
        let both = self.bind("e", made);
        self.bind("e", super::tree::field(&both, "0"))
    }

    /// A reduction, and the type of its accumulator.
    fn reduction(&mut self, function: &str, args: Vec<Expr>, elem: &mut Elem) -> Expr {
        let made = call(function, args);
        if !function.ends_with("sum") {
            return made;
        }
        if self.random.chance(85) {
            // Accumulators of narrow elements are wide.
            *elem = elem.accumulator();
            return made;
        }
        let alike =
            ELEMS.map(|(_, other)| other).into_iter().filter(|other| other.is_float() == elem.is_float());
        *elem = self.random.pick(&alike.collect::<Vec<_>>());
        with(made, "acc", name(elem.name()))
    }

    /// Unrolled indexing along a mode.
    fn by_rows(&mut self, part: &Part) -> Part {
        if part.shape.len() < 2 {
            return self.in_registers(part);
        }
        let mode = self.random.below(part.shape.len());
        let to = self.registers(part.elem, &part.shape, 0.0);
        let var = self.fresh("u");
        let at = |reversed: bool| -> Vec<Expr> {
            let last = int(part.shape[mode] - 1);
            let position = if reversed { binary(Binary::Sub, last, name(&var)) } else { name(&var) };
            (0..part.shape.len()).map(|m| if m == mode { position.clone() } else { hole() }).collect()
        };
        let reversed = self.random.chance(40);
        let (from, into) = (index(name(&part.name), at(reversed)), index(name(&to.name), at(false)));
        let body = vec![effect(call("copy", vec![from, into]))];
        let extent = range(int(0), int(part.shape[mode]));
        self.push(repeat(&var, call("unroll", vec![extent]), body));
        to
    }

    /// A loop that gathers tiles along a mode in registers.
    pub(super) fn gather(&mut self, form: Form) {
        let elem = self.elem();
        let rank = form.tile.len();
        let part = self.input(&form, elem, 1);
        let acc_elem = if self.random.chance(80) { elem } else { self.wider(elem) };
        let acc = self.registers(acc_elem, &form.shape(), 0.0);
        let var = self.fresh("k");
        let at = |position: Expr| -> Vec<Expr> { (0..rank).map(|_| hole()).chain([position]).collect() };
        let extent = match self.random.chance(85) {
            true => method(name(&part.name), "size", vec![int(rank as i64)]),
            false => int(self.random.within(1, 4)),
        };
        let (from, extent) = self.ends(extent);
        let position = self.iteration(&var);
        let slice = Part { name: String::new(), ..part.clone() };
        let taken = index(name(&part.name), at(position));
        let exclusive = form.is_exclusive();
        let way = if exclusive { self.random.below(10) } else { self.random.below(5) };
        match way {
            0..5 => {
                let body = self.inside(&var, |scene| {
                    let from = scene.bind("f", taken);
                    scene.added(&Part { name: from, ..slice }, &acc);
                });
                self.push(repeat(&var, range(from, extent), body));
            }
            _ => {
                // Through shared memory, where the loop may be pipelined.
                let ahead = self.random.chance(60);
                let array = self.shared(elem, &form.tile);
                let to = self.bind("w", form.of(name(&array)));
                let (other, read) = match self.otherwise(&form) {
                    Some(other) if other.shape() == form.shape() && self.random.chance(60) => {
                        let read = self.bind("q", other.of(name(&array)));
                        (other, read)
                    }
                    _ => (form.clone(), to.clone()),
                };
                let how = if ahead && elem.bytes() < 4 && self.random.chance(60) {
                    0
                } else {
                    self.random.below(6)
                };
                let body = self.inside(&var, |scene| {
                    let copy = call("copy", vec![taken, name(&to)]);
                    let copy = match how {
                        0 => with(copy, "how", text("staged")),
                        1 if !ahead => with(copy, "how", text("plain")),
                        2 if !ahead => with(copy, "fill", literal(1.0, elem)),
                        _ => copy,
                    };
                    scene.push(effect(copy));
                    if !ahead {
                        scene.push(effect(call("cp_async_wait_all", Vec::new())));
                        scene.push(effect(call("sync_threads", Vec::new())));
                    }
                    let part = Part { name: read, is_global: false, shape: other.shape(), ..slice };
                    scene.added(&part, &acc);
                    if !ahead {
                        scene.push(effect(call("sync_threads", Vec::new())));
                    }
                });
                let extent = range(from, extent);
                let extent = match ahead {
                    true => {
                        let stages = self.random.weighted(&[(2, 1), (5, 2), (4, 3), (1, 4)]);
                        with(call("pipelined", vec![extent]), "stages", int(stages))
                    }
                    false => extent,
                };
                self.push(repeat(&var, extent, body));
                if self.random.chance(30) {
                    self.push(effect(call("sync_threads", Vec::new())));
                }
            }
        }
        self.finish(&acc, &form);
    }

    /// A tile much larger than its tensor; a thread accesses a few of its elements.
    pub(super) fn far(&mut self) {
        let threads = self.threads;
        let each = self.random.pick(&[65_537, 100_000, 1_000_000, 3_000_000]) / threads + 1;
        let tile = each * threads;
        let elem = self.elem();
        let layout = self.thread_layout(&[threads]);
        let form = Form {
            tile: vec![tile],
            threads: (layout, vec![threads]),
            keep: None,
            values: vec![1],
            ragged: false,
        };
        let part = self.input(&form, elem, 0);
        let (to, take) = (self.registers(elem, &[3], 0.0), self.random.within(0, 2));
        for position in 0..3 {
            // Near the beginning, and far out of bounds.
            let at = match self.random.below(3) {
                0 => self.random.within(0, each - 1),
                _ => self.random.within(0, 2).min(each - 1),
            };
            let at = if position == take { 0 } else { at };
            let (from, into) = (vec![int(at)], vec![int(position)]);
            let view = self.bind("f", index(name(&part.name), from));
            self.push(effect(call("copy", vec![name(&view), index(name(&to.name), into)])));
        }
        let small = Form { tile: vec![3 * threads], ..form };
        self.finish(&to, &small);
    }

    /// The tile index of an iteration.
    fn iteration(&mut self, var: &str) -> Expr {
        let k = name(var);
        match self.random.below(20) {
            0 => binary(Binary::Add, k, int(1)),
            1 => binary(Binary::Sub, k, int(1)),
            2 => binary(Binary::Mul, k, int(2)),
            3 => binary(Binary::Mul, k, int(1000)),
            4 => binary(Binary::Div, k, int(2)),
            5 => binary(Binary::Rem, k, int(2)),
            6 => {
                let more = binary(Binary::Add, k, int(1));
                binary(Binary::Rem, more, int(3))
            }
            7 => self.anywhere(1),
            _ => k,
        }
    }

    /// The body of a loop.
    pub(super) fn inside(&mut self, var: &str, body: impl FnOnce(&mut Scene)) -> Vec<Stmt> {
        self.bodies.push(Vec::new());
        self.vars.push(var.to_owned());
        body(self);
        self.vars.pop();
        self.bodies.pop().unwrap_or_default()
    }

    fn added(&mut self, part: &Part, acc: &Part) {
        let same = part.elem == acc.elem;
        match self.random.below(6) {
            0..2 if same => {
                let stmt = assign(name(&acc.name), Some(Binary::Add), name(&part.name));
                let stmt = self.perhaps(stmt, true);
                self.push(stmt);
            }
            2 => {
                let part = self.in_registers(part);
                self.map_into(&[acc.clone(), part], acc);
            }
            3 => {
                let made = self.reduced_or_copied(part);
                self.map_into(&[acc.clone(), made], acc);
            }
            _ => {
                let (a, b) = (name("a"), name("b"));
                let b = if same { b } else { super::tree::cast(b, acc.elem) };
                let sum = super::tree::closure(&["a", "b"], binary(Binary::Add, a, b));
                let views = tuple(vec![name(&acc.name), name(&part.name)]);
                self.push(effect(call("map", vec![views, name(&acc.name), sum])));
            }
        }
    }

    fn reduced_or_copied(&mut self, part: &Part) -> Part {
        let own = self.in_registers(part);
        if self.random.chance(60) { self.reduced(&own) } else { own }
    }

    pub(super) fn wider(&mut self, elem: Elem) -> Elem {
        match elem {
            Elem::F16 | Elem::Bf16 => Elem::F32,
            Elem::I8 | Elem::U8 => Elem::I32,
            Elem::F32 => Elem::F64,
            other => other,
        }
    }
}
