//! Partial evaluation of a kernel's text: layouts, tuples, constants and static loops are evaluated while
//! compiling; the residual program becomes calls on the builder. All mistakes are collected, each at its own
//! tokens.

mod advice;
mod args;
mod assign;
mod bind;
mod calls;
mod changed;
mod choice;
mod control;
mod copies;
mod device;
mod elements;
mod elementwise;
mod expression;
mod function;
mod functions;
mod gather;
mod heads;
mod instruction;
mod integer;
mod keys;
mod lanes;
mod layouts;
mod loops;
mod matmul_keys;
mod mma;
mod numbers;
mod operators;
mod probe;
mod ptx;
mod reduce;
mod scan;
mod tensors;
mod unpack;
mod uses;
mod value;
mod views;
mod whole;

use std::sync::Arc;

use crate::build::Builder;
use crate::launch::definition::Settings;
use crate::source::ast::{self, Kernel, Level, Name, Span, Stmt, StmtKind};
use crate::source::diagnostic::{Diagnostic, Lint};
use crate::source::problem::Problem;
use crate::tile::verify::{collective, unspecified};
use crate::tile::view::View;
use crate::tile::{self, Purpose};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::limits;
pub(crate) use advice::element;
pub use advice::elsewhere;
pub use device::{device, recursive};
pub use functions::{FUNCTIONS, Function};
pub use keys::KEYS;
use loops::{Around, Decided};
pub(crate) use matmul_keys::Keys;
use value::Value;

/// The tile program of a function, its errors, and levels of lints; with or without its assertions and prints.
pub fn program(
    kernel: &Kernel,
    settings: &Settings,
    probes: bool,
) -> (tile::Program, Vec<Diagnostic>, Vec<(Name, Level)>) {
    let mut run = Evaluator { probes, ..Evaluator::new(&kernel.name.text) };
    if kernel.overlaps {
        run.builder.program_mut().overlaps = true;
    }
    run.heads(kernel);
    run.is_name("a kernel", &kernel.name.text, kernel.name.span);
    run.diagnostics.extend(advice::taken(&kernel.name));
    run.constants(kernel, settings);
    run.keys(kernel);
    Arc::make_mut(&mut run.home).devices.clone_from(&kernel.devices);
    run.is_unsafe = kernel.is_unsafe;
    run.params(kernel);
    run.changes = changed::Changes::of(&kernel.body, None, &kernel.devices);
    run.body(&kernel.body);
    run.check_divisors();
    let mut levels = kernel.levels.clone();
    levels.extend(settings.levels.iter().cloned());
    for (name, _) in &levels {
        run.diagnostics.extend(Lint::unknown(name));
    }
    if !run.diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Deny) {
        run.diagnostics.extend(run.uses.unused(&levels));
        for (name, reported) in run.lints {
            let level = Lint::named(name).map_or(Level::Allow, |lint| lint.level_among(&levels));
            let reported =
                (level != Level::Allow).then_some(Diagnostic { level, lint: Some(name), ..reported });
            run.diagnostics.extend(reported);
        }
    }
    let program = run.builder.finish();
    if !run.diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Deny) {
        let changed = program.body.iter().try_for_each(|stmt| collective::combined(&program, stmt));
        run.diagnostics.extend(changed.and_then(|()| unspecified::check(&program)).err());
    }
    (program, run.diagnostics, levels)
}

/// What the text of a kernel, or of a function that kernels share, uses besides names in scope.
#[derive(Clone, Default, Debug)]
struct Home {
    /// The name of the function, which sees no sizes of a kernel.
    function: Option<String>,
    /// The functions that it uses.
    devices: Vec<ast::Device>,
    /// Values of its type parameters.
    types: Vec<(String, Elem)>,
}

struct Evaluator {
    builder: Builder,
    /// Names, innermost last.
    scope: Vec<(String, Value)>,
    /// The number of names outside of the innermost loop or branch that the kernel runs: these cannot name another number.
    fixed: usize,
    /// The scopes of the callers of closures under evaluation, for messages.
    callers: Vec<Vec<(String, Value)>>,
    /// The kernel or function whose text is under evaluation.
    home: Arc<Home>,
    /// The call of such a function, whose text is elsewhere, under evaluation.
    called_at: Option<Span>,
    diagnostics: Vec<Diagnostic>,
    /// Lints, whose levels are set last.
    lints: Vec<(&'static str, Diagnostic)>,
    /// Which names are used.
    uses: uses::Uses,
    /// The names of elements that change.
    changes: changed::Changes,
    /// Elements of inputs that have been loaded as integers in the open blocks.
    loaded: Vec<(View, Purpose, Affine)>,
    /// Divisors that are not known to be positive so far, with their operators.
    divisors: Vec<(Affine, ast::Binary, Span)>,
    /// The names of the kernel's constants.
    constants: Vec<String>,
    /// The names that the current `let` binds.
    naming: Vec<String>,
    /// The registers that the value is assigned to.
    into: Option<View>,
    /// Nesting depth of blocks and expressions.
    blocks: u32,
    depth: u32,
    work: Work,
    /// Loops around the statement under evaluation.
    around: Vec<Around>,
    /// False for keys, which are read outside of any kernel.
    in_kernel: bool,
    /// Are assertions and prints of a running kernel evaluated?
    probes: bool,
    /// Is it an `unsafe fn`, whose author vouches for it?
    is_unsafe: bool,
    /// Is this a function of elements, where `as` gives literals a type?
    in_closure: bool,
    /// The elements that the function of elements under evaluation reads besides its parameters.
    captured: Option<elements::Captured>,
    /// Is this the type of an argument, where unknown names are sizes?
    in_type: bool,
}

impl Evaluator {
    fn new(name: &str) -> Evaluator {
        Evaluator {
            builder: Builder::new(name),
            scope: Vec::new(),
            fixed: 0,
            callers: Vec::new(),
            home: Arc::default(),
            called_at: None,
            diagnostics: Vec::new(),
            lints: Vec::new(),
            uses: uses::Uses::default(),
            changes: changed::Changes::default(),
            loaded: Vec::new(),
            divisors: Vec::new(),
            constants: Vec::new(),
            naming: Vec::new(),
            into: None,
            blocks: 0,
            depth: 0,
            work: Work::default(),
            around: Vec::new(),
            in_kernel: true,
            probes: true,
            is_unsafe: false,
            in_closure: false,
            captured: None,
            in_type: false,
        }
    }

    /// The span of the next statements; statements of a shared function have the span of its call.
    fn at(&mut self, span: Span) {
        self.builder.at(self.called_at.unwrap_or(span));
    }

    fn complain(&mut self, span: Span, problem: Problem) -> Value {
        if problem != Problem::reported() && self.diagnostics.len() <= limits::MOST_ERRORS {
            let problem = match self.diagnostics.len() == limits::MOST_ERRORS {
                true => limits::too_many_errors(),
                false => problem,
            };
            self.work.is_over |= self.diagnostics.len() == limits::MOST_ERRORS;
            self.diagnostics.push(problem.at(self.called_at.unwrap_or(span)));
        }
        Value::Poison
    }

    /// Complains unless the text is a name.
    fn is_name(&mut self, what: &str, text: &str, span: Span) -> bool {
        match limits::name(what, text) {
            Ok(()) => true,
            Err(problem) => {
                self.complain(span, problem);
                false
            }
        }
    }

    fn lookup(&self, name: &str) -> Option<&Value> {
        self.entry_of(name).map(|entry| &self.scope[entry].1)
    }

    /// The index of a name in the scope.
    fn entry_of(&self, name: &str) -> Option<usize> {
        self.scope.iter().rposition(|(known, _)| known == name)
    }

    fn body(&mut self, body: &[ast::Stmt]) {
        if self.blocks >= limits::DEEPEST_BLOCKS {
            if let Some(stmt) = body.first() {
                self.complain(stmt.span, limits::too_deep());
            }
            return;
        }
        self.blocks += 1;
        let (depth, loaded) = (self.scope.len(), self.loaded.len());
        for stmt in body {
            self.at(stmt.span);
            self.statement(stmt);
            if !self.goes_on(1, stmt.span) {
                break;
            }
        }
        self.scope.truncate(depth);
        self.loaded.truncate(loaded);
        self.blocks -= 1;
    }

    /// Counts evaluated values. Above the limit evaluation stops, and one error says why.
    fn goes_on(&mut self, values: u64, span: Span) -> bool {
        if !self.work.is_over {
            self.work.values += values;
            let statements = self.builder.statements();
            let problem = if statements > limits::MOST_STATEMENTS {
                limits::too_much(statements)
            } else if self.scope.len() > limits::MOST_NAMES {
                limits::too_many_names()
            } else if self.work.values > limits::MOST_VALUES {
                Problem::new(format!(
                    "by here more than {} values have been computed to make {statements} statements of the kernel",
                    limits::MOST_VALUES
                ))
                .help("use a loop that the kernel runs, `for i in 0..n` without `unroll`, or fewer layouts")
            } else {
                return true;
            };
            self.work.is_over = true;
            self.complain(span, problem);
        }
        false
    }

    fn statement(&mut self, stmt: &ast::Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, value } => self.bind_let(pattern, value),
            StmtKind::Expr(expr) => {
                let value = self.unsettled(expr);
                let (what, help) = match &value {
                    Value::Unit | Value::Poison => return,
                    Value::Elements(_) | Value::View(_) => {
                        let tile = matches!(value, Value::Elements(_));
                        let what = if tile { "a computed tile".into() } else { value.kind() };
                        (what, "copy it to a result, as in copy(x, y), or bind it with `let`")
                    }
                    other => (other.kind(), "bind it with `let`, or remove it"),
                };
                let problem = Problem::new(format!("the value of this statement, {what}, is not used"));
                self.complain(expr.span, problem.help(help));
            }
            StmtKind::Assign { target, op, value } => self.assign(target, *op, value, stmt.span),
            StmtKind::For { pattern, range, body } => self.repeat(pattern, range, body),
            StmtKind::If { condition, then, other } => match (self.decided(condition), &then[..], &other[..])
            {
                (Some(Decided::Known(true)), ..) => self.body(then),
                (Some(Decided::Known(false)), ..) => self.body(other),
                (Some(Decided::Test(test)), [Stmt { kind: StmtKind::Break, span }], []) => {
                    self.leave(test, *span)
                }
                (Some(Decided::Test(test)), ..) => self.branch(test, then, other, stmt.span),
                (None, ..) => {}
            },
            StmtKind::While { condition, body } => self.repeat_while(condition, body, stmt.span),
            StmtKind::Break => self.leave(loops::always(), stmt.span),
            StmtKind::Block { head, .. } => {
                let problem = Problem::new("this block is not a statement of kernels");
                self.complain(head.span, problem.help("use `for`, `if`, or plain statements"));
            }
        }
    }
}

/// The evaluation budget spent so far.
#[derive(Default)]
struct Work {
    values: u64,
    /// The budget was exceeded, and this has been reported.
    is_over: bool,
}
