//! The generator's own pages: `#[kernel]` functions in files, whose parts have no spans. A page is what the macro's parser accepts too.

use super::read::{LET, Reader, Result};
use crate::source::ast::make::named;
use crate::source::ast::{
    ConstParam, Expr, ExprKind, Kernel, Param, ParamKind, Pattern, Span, Stmt, StmtKind,
};

/// The function of a page.
pub(super) fn kernel(text: &str) -> Result<Kernel> {
    let mut reader = Reader { text, at: 0, base: 0, locations: Vec::new(), depth: 0, in_page: true };
    reader.kernel()
}

/// A condition, and the name that `if let Some(x) = argument` binds.
type Tested = (Expr, Option<(Pattern, Expr)>);

fn bare(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

impl Reader<'_> {
    /// `#[kernel] fn name<T, const BM: usize = 64>(…) { … }`
    fn kernel(&mut self) -> Result<Kernel> {
        self.expect("#[kernel]", "")?;
        self.expect("fn ", "")?;
        let name = self.name()?;
        let mut consts = self.constants()?;
        self.expect("(", "")?;
        let params = self.many(")", Reader::param)?;
        let presence = |param: &Param| match &param.list.as_ref()?.kind {
            ExprKind::Name(name) => Some(ConstParam { name: named(name), default: Some(1.into()) }),
            _ => None,
        };
        consts.extend(params.iter().filter_map(presence));
        Ok(Kernel {
            name,
            is_unsafe: false,
            consts,
            types: Vec::new(),
            params,
            devices: Vec::new(),
            body: self.stmts()?,
            levels: Vec::new(),
            keys: Vec::new(),
            overlaps: false,
            choices: Vec::new(),
        })
    }

    /// Parts with commas after them, until a sign.
    fn many<T>(&mut self, end: &str, part: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while !self.take(end) {
            all.push(part(self)?);
            self.take(",");
        }
        Ok(all)
    }

    /// The constants of `<T, const BM: usize = 64, const F: fn(f32) -> f32 = { |x| x }>`.
    fn constants(&mut self) -> Result<Vec<ConstParam>> {
        self.expect("<", "")?;
        let all = self.many(">", |reader| {
            let is_constant = reader.take_word("const");
            let name = reader.name()?;
            if !is_constant {
                return Ok(None);
            }
            // Its value has a type.
            reader.at += reader.text[reader.at..].find('=').unwrap_or_default();
            reader.expect("=", "")?;
            Ok(Some(ConstParam { name, default: Some(reader.primary()?) }))
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// `c: &mut Tensor<f32, (M, N), (_1, ldc)>`, `bias: Option<&Tensor<f32, N>>` or `alpha: f32`
    fn param(&mut self) -> Result<Param> {
        let name = self.name()?;
        self.expect(":", "")?;
        let optional = self.take("Option<");
        let (elem, kind) = match self.take("&") {
            false => (self.name()?, ParamKind::Scalar),
            true => {
                let mutable = self.take_word("mut");
                self.expect("Tensor<", "")?;
                let elem = self.name()?;
                self.expect(",", "")?;
                let shape = self.primary()?;
                let stride = self.take(",").then(|| self.primary()).transpose()?;
                self.expect(">", "")?;
                (elem, ParamKind::Tensor { mutable, shape, stride })
            }
        };
        if optional {
            self.expect(">", "")?;
        }
        let presence = || bare(ExprKind::Name(format!("HAS_{}", name.text.to_uppercase())));
        Ok(Param { elem, kind, list: optional.then(presence), optional, name })
    }

    /// The name that `let` or `for` binds, or several in parentheses.
    pub(super) fn pattern(&mut self) -> Result<Pattern> {
        if self.take("(") {
            return Ok(Pattern::Tuple(Span::default(), self.many(")", Reader::pattern)?));
        }
        self.take_word("mut");
        Ok(Pattern::Name(self.name()?))
    }

    /// A condition after `if`.
    pub(super) fn condition(&mut self) -> Result<Tested> {
        if !self.in_page || !self.take_word("let") {
            return Ok((self.value()?, None));
        }
        self.expect("Some(", "")?;
        let pattern = self.pattern()?;
        self.expect(") =", "")?;
        let list = self.value()?;
        let method = named("is_some");
        let value = ExprKind::Index { base: Box::new(list.clone()), index: Box::new(0.into()) };
        let condition = ExprKind::Method { receiver: Box::new(list), method, args: Vec::new() };
        Ok((bare(condition), Some((pattern, bare(value)))))
    }

    /// Statements in braces.
    fn stmts(&mut self) -> Result<Vec<Stmt>> {
        self.expect("{", "")?;
        let mut all = Vec::new();
        while !self.take("}") {
            all.push(self.stmt()?);
        }
        Ok(all)
    }

    fn stmt(&mut self) -> Result<Stmt> {
        if self.take_word("if") {
            return self.branch();
        }
        let kind = if self.take_word("for") {
            let pattern = self.pattern()?;
            self.expect("in ", "")?;
            return Ok(statement(StmtKind::For { pattern, range: self.value()?, body: self.stmts()? }));
        } else if self.take_word("let") {
            let pattern = self.pattern()?;
            self.expect("=", LET)?;
            StmtKind::Let { pattern, value: self.value()? }
        } else {
            let target = self.value()?;
            match self.take("=") {
                true => StmtKind::Assign { target, op: None, value: self.value()? },
                false => StmtKind::Expr(target),
            }
        };
        self.expect(";", "")?;
        Ok(statement(kind))
    }

    /// The rest of an `if` without a value.
    fn branch(&mut self) -> Result<Stmt> {
        let (condition, bound) = self.condition()?;
        let mut then = self.stmts()?;
        if let Some((pattern, value)) = bound {
            then.insert(0, statement(StmtKind::Let { pattern, value }));
        }
        let other = match self.take_word("else") {
            false => Vec::new(),
            true if self.take_word("if") => vec![self.branch()?],
            true => self.stmts()?,
        };
        Ok(statement(StmtKind::If { condition, then, other }))
    }
}

fn statement(kind: StmtKind) -> Stmt {
    Stmt { span: Span::default(), kind }
}
