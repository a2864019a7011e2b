//! The lines of a function's text, each with its statement: programs that show the text beside the CUDA C tie them together.

use std::collections::BTreeSet;

use super::{changes, statement};
use crate::source::ast::{Expr, Kernel, Span, Stmt, StmtKind};

impl Kernel {
    /// Its lines as Rust, each with the innermost statement that it belongs to; lines of the head have none.
    ///
    /// ```
    /// # use tilewright_codegen::{Definition, Generate};
    /// use tilewright_codegen::words::Words;
    /// let keys = Words::read("bm=64 bn=64 bk=8 tc=(8,8)").unwrap();
    /// let function = Definition::Matmul(keys.args().to_vec()).function().unwrap();
    /// let lines = function.lines();
    /// assert!(lines[0].0.starts_with("#[kernel") && lines[0].1.is_none());
    /// let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    /// assert_eq!(text, function.to_string());
    /// let first = lines.iter().find(|(_, stmt)| stmt.is_some()).unwrap();
    /// assert!(first.0.starts_with("    let "), "{}", first.0);
    /// ```
    pub fn lines(&self) -> Vec<(String, Option<&Stmt>)> {
        let mut changed = BTreeSet::new();
        self.body.iter().for_each(|stmt| changes(stmt, &mut changed));
        let mut owners = Vec::new();
        self.body.iter().for_each(|stmt| push_owners(stmt, 4, &changed, &mut owners));
        let text = self.to_string();
        let head = text.lines().count().saturating_sub(owners.len() + 1);
        let owner = |line: usize| line.checked_sub(head).and_then(|at| owners.get(at).copied());
        text.lines().enumerate().map(|(line, text)| (text.to_owned(), owner(line))).collect()
    }
}

/// The innermost statement of each line of a statement.
fn push_owners<'s>(stmt: &'s Stmt, indent: usize, changed: &BTreeSet<String>, owners: &mut Vec<&'s Stmt>) {
    let blocks: Vec<&[Stmt]> = match &stmt.kind {
        StmtKind::For { body, .. } | StmtKind::While { body, .. } | StmtKind::Block { body, .. } => {
            vec![body]
        }
        StmtKind::If { then, other, .. } if other.is_empty() => vec![then],
        StmtKind::If { then, other, .. } => vec![then, other],
        _ => {
            let lines = statement(stmt, indent, changed).lines().count();
            return owners.extend(std::iter::repeat_n(stmt, lines));
        }
    };
    owners.push(stmt);
    for block in blocks {
        block.iter().for_each(|stmt| push_owners(stmt, indent + 4, changed, owners));
        owners.push(stmt);
    }
}

impl Stmt {
    /// The spans of the statement and of its expressions; substatements have their own.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = vec![self.span];
        let mut left: Vec<&Expr> = self.exprs();
        while let Some(expr) = left.pop() {
            spans.push(expr.span);
            left.extend(expr.inside());
        }
        spans
    }
}
