//! Acts without products: tiles that pass through several memories, with functions and reductions, and loops
//! that gather tiles.

use tilewright_codegen::Elem;

use super::form::Form;
use super::scene::{ELEMS, Part, Scene};
use super::text::{as_elem, choice, last_mode, literal, repeat, tuple, with};

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
                self.push(format!("{out} += {part};"));
            }
        }
    }

    fn fill(&mut self, out: &Part) {
        let value = literal(self.random.within(0, 3) as f64, out.elem);
        self.push(format!("fill({out}, {value});"));
    }

    pub(super) fn copy(&mut self, from: &Part, to: &Part) {
        let copy = format!("copy({from}, {to})");
        let copy = match self.random.below(12) {
            0 => with(copy, "how", "\"plain\""),
            1 => with(copy, "how", "\"staged\""),
            2..5 if from.is_global => {
                let fill = self.random.pick(&[1.0, 2.0, 0.0, 3.0]);
                with(copy, "fill", literal(fill, from.elem))
            }
            _ => copy,
        };
        self.push(format!("{copy};"));
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
        self.push(format!("map({}, {out}, {closure});", tuple(ins)));
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
        let name = self.bind("m", format!("map({}, {closure})", tuple(&ins)));
        Part { name, is_registers: true, is_global: false, ..part.clone() }
    }

    /// Through shared memory, to another partition.
    fn through_shared(&mut self, part: &Part, form: &Form) -> (Part, Form) {
        let elem = if self.random.chance(85) { part.elem } else { self.elem() };
        let array = self.shared(elem, &form.tile);
        let to = self.bind("w", form.of(&array));
        let to = Part { name: to, elem, is_registers: false, is_global: false, shape: form.shape() };
        match self.random.below(6) {
            0 => self.map_into(std::slice::from_ref(part), &to),
            _ => self.copy(part, &to),
        }
        if part.is_global {
            if self.random.chance(20) {
                self.push("cp_async_commit();");
            }
            let waits_for_some = self.random.chance(25);
            self.push(if waits_for_some { "cp_async_wait(0);" } else { "cp_async_wait_all();" });
        }
        self.push("sync_threads();");
        match self.otherwise(form) {
            Some(other) if self.random.chance(70) => {
                let from = self.bind("q", other.of(&array));
                (Part { name: from, shape: other.shape(), ..to }, other)
            }
            _ => (to, form.clone()),
        }
    }

    /// `r += x;` and its like.
    fn changed(&mut self, part: &Part, form: &Form) -> Part {
        let part = if part.is_registers { part.clone() } else { self.in_registers(part) };
        let op = self.random.pick(&["", "+", "-", "*"]);
        let value = match self.random.below(4) {
            0 => literal(self.random.within(1, 3) as f64, part.elem),
            1 => self.scalar(part.elem),
            _ => self.input(form, part.elem, 0).name,
        };
        let stmt = self.perhaps(format!("{part} {op}= {value};"));
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
            let mut call = format!("{kind}({from})");
            if whole == 0 {
                let mode = self.random.below(part.shape.len());
                shape[mode] = 1;
                call = format!("{kind}({from}, {mode})");
            } else {
                shape.fill(1);
            }
            let made = self.reduction(call, kind, &mut elem);
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
            let made = self.reduction(format!("{across}_{kind}({from})"), kind, &mut elem);
            from = self.bind("e", made);
        }
        let made = if self.random.chance(25) { self.folded(&from, &shape, elem) } else { from };
        let closure = self.closure(&[part.elem, elem], part.elem);
        let name = self.bind("m", format!("map(({part}, {made}), {closure})"));
        Part { name, ..part.clone() }
    }

    /// Reductions of elements or pairs by closures.
    fn folded(&mut self, from: &str, shape: &[i64], elem: Elem) -> String {
        let (least, _) = crate::number::range(elem);
        let larger = choice("(a < b)", "b", "a");
        let function = match warps(self.threads) {
            true => self.random.pick(&["warp_reduce", "block_reduce"]),
            false => "block_reduce",
        };
        let least = literal(least, elem);
        if self.random.chance(50) {
            if self.random.chance(50) {
                let function =
                    if self.random.chance(50) { "scan" } else { &function.replace("reduce", "scan") };
                let made = format!("{function}({from}, {least}, |a, b| {larger})");
                let made = if self.random.chance(50) { with(made, "exclusive", true) } else { made };
                return self.bind("e", made);
            }
            return self.bind("e", format!("{function}({from}, {least}, |a, b| {larger})"));
        }
        // The maximum, and its multiplicity.
        let ones = self.registers(elem, shape, 1.0);
        let zero = literal(0.0, elem);
        let both = format!("|(a, n), (b, m)| ({larger}, n + m)");
        let both = self.bind("e", format!("{function}(({from}, {ones}), ({least}, {zero}), {both})"));
        self.bind("e", format!("{both}.0"))
    }

    /// A reduction, and the type of its accumulator.
    fn reduction(&mut self, call: String, kind: &str, elem: &mut Elem) -> String {
        if kind != "sum" {
            return call;
        }
        if self.random.chance(85) {
            // Accumulators of narrow elements are wide.
            *elem = elem.accumulator();
            return call;
        }
        let alike =
            ELEMS.map(|(_, other)| other).into_iter().filter(|other| other.is_float() == elem.is_float());
        *elem = self.random.pick(&alike.collect::<Vec<_>>());
        with(call, "acc", *elem)
    }

    /// Unrolled indexing along a mode.
    fn by_rows(&mut self, part: &Part) -> Part {
        if part.shape.len() < 2 {
            return self.in_registers(part);
        }
        let mode = self.random.below(part.shape.len());
        let to = self.registers(part.elem, &part.shape, 0.0);
        let var = self.fresh("u");
        let at = |position: &str| -> String {
            let entries = (0..part.shape.len()).map(|m| if m == mode { position } else { "_" });
            tuple(&entries.collect::<Vec<_>>())
        };
        let last = part.shape[mode] - 1;
        let from = if self.random.chance(40) { format!("{last} - {var}") } else { var.clone() };
        let body = format!("copy({part}[{}], {to}[{}]);\n", at(&from), at(&var));
        self.push(repeat(&var, &format!("unroll(0..{})", part.shape[mode]), &body));
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
        let extent = match self.random.chance(85) {
            true => format!("{part}.size({rank})"),
            false => self.random.within(1, 4).to_string(),
        };
        let over = self.ends(&extent);
        let taken = format!("{part}[{}]", last_mode(rank, self.iteration(&var)));
        let slice = Part { name: String::new(), ..part };
        match if form.is_exclusive() { self.random.below(10) } else { self.random.below(5) } {
            0..5 => {
                let body = self.inside(&var, |scene| {
                    let from = scene.bind("f", taken);
                    scene.added(&Part { name: from, ..slice }, &acc);
                });
                self.push(repeat(&var, &over, &body));
            }
            _ => self.gather_through_shared(&form, (&var, over), (slice, taken), &acc),
        }
        self.finish(&acc, &form);
    }

    /// Through shared memory, where the loop may be pipelined.
    fn gather_through_shared(
        &mut self,
        form: &Form,
        (var, over): (&str, String),
        (slice, taken): (Part, String),
        acc: &Part,
    ) {
        let elem = slice.elem;
        let ahead = self.random.chance(60);
        let array = self.shared(elem, &form.tile);
        let to = self.bind("w", form.of(&array));
        let (other, read) = match self.otherwise(form) {
            Some(other) if other.shape() == form.shape() && self.random.chance(60) => {
                let read = self.bind("q", other.of(&array));
                (other, read)
            }
            _ => (form.clone(), to.clone()),
        };
        let how = if ahead && elem.bytes() < 4 && self.random.chance(60) { 0 } else { self.random.below(6) };
        let body = self.inside(var, |scene| {
            let copy = format!("copy({taken}, {to})");
            let copy = match how {
                0 => with(copy, "how", "\"staged\""),
                1 if !ahead => with(copy, "how", "\"plain\""),
                2 if !ahead => with(copy, "fill", literal(1.0, elem)),
                _ => copy,
            };
            scene.push(format!("{copy};"));
            if !ahead {
                scene.push("cp_async_wait_all();\nsync_threads();");
            }
            let part = Part { name: read, is_global: false, shape: other.shape(), ..slice };
            scene.added(&part, acc);
            if !ahead {
                scene.push("sync_threads();");
            }
        });
        let over = match ahead {
            true => {
                let stages = self.random.weighted(&[(2, 1), (5, 2), (4, 3), (1, 4)]);
                format!("pipelined({over}, stages = {stages})")
            }
            false => over,
        };
        self.push(repeat(var, &over, &body));
        if self.random.chance(30) {
            self.push("sync_threads();");
        }
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
            let view = self.bind("f", format!("{part}[{at}]"));
            self.push(format!("copy({view}, {to}[{position}]);"));
        }
        let small = Form { tile: vec![3 * threads], ..form };
        self.finish(&to, &small);
    }

    /// The tile index of an iteration.
    fn iteration(&mut self, k: &str) -> String {
        match self.random.below(20) {
            0 => format!("({k} + 1)"),
            1 => format!("({k} - 1)"),
            2 => format!("({k} * 2)"),
            3 => format!("({k} * 1000)"),
            4 => format!("({k} / 2)"),
            5 => format!("({k} % 2)"),
            6 => format!("(({k} + 1) % 3)"),
            7 => self.anywhere(1),
            _ => k.into(),
        }
    }

    /// The body of a loop.
    pub(super) fn inside(&mut self, var: &str, body: impl FnOnce(&mut Scene)) -> String {
        self.bodies.push(String::new());
        self.vars.push(var.to_owned());
        body(self);
        self.vars.pop();
        self.bodies.pop().unwrap_or_default()
    }

    fn added(&mut self, part: &Part, acc: &Part) {
        match self.random.below(6) {
            0..2 if part.elem == acc.elem => {
                let stmt = self.perhaps(format!("{acc} += {part};"));
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
                let b = as_elem("b", part.elem, acc.elem);
                self.push(format!("map(({acc}, {part}), {acc}, |a, b| a + {b});"));
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
