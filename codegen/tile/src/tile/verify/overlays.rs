//! Overlays: shared tensors that reuse the memory of others, which must be dead.

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::Program;
use crate::tile::visit::preorder;

/// Refuses a program that uses a tensor after an overlay has overwritten it.
pub(super) fn check(program: &Program) -> std::result::Result<(), Diagnostic> {
    let (mut taken, mut refused): (Vec<Id>, _) = (Vec::new(), None);
    for stmt in preorder(&program.body) {
        let used: Vec<Id> = stmt.accesses().map(|view| view.tensor).collect();
        for (over, done) in &program.overlays {
            if used.contains(over) && !taken.contains(over) {
                taken.push(*over);
            }
            let late = used.iter().find(|id| done.contains(id)).filter(|_| taken.contains(over));
            if let Some(&late) = late {
                let name = |id: Id| &program.tensor(id).name;
                let message =
                    format!("`{}` is used here, and `{}` reuses its shared memory", name(late), name(*over));
                let help = "use it before, or give the other tensor memory of its own";
                refused.get_or_insert(Problem::new(message).help(help).at(stmt.span));
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use crate::build::Builder;
    use crate::tile::Expr;
    use crate::values::elem::Elem;
    use tilewright_layout::layout;

    #[test]
    fn a_tensor_is_dead_after_its_overlay() {
        let message = |again: bool| {
            let mut b = Builder::new("places");
            let first = b.shared("first", Elem::F32, layout!(64 : 1)).unwrap();
            let mine = b.parallelize(&first, &layout!(64 : 1)).unwrap();
            b.fill(&mine, Expr::lit(0.0)).unwrap();
            let second = b.shared_after("second", Elem::F32, layout!(64 : 1), &[&first]).unwrap();
            let other = b.parallelize(&second, &layout!(64 : 1)).unwrap();
            b.fill(&other, Expr::lit(0.0)).unwrap();
            if again {
                b.fill(&mine, Expr::lit(0.0)).unwrap();
            }
            super::check(&b.finish()).err().map(|diagnostic| diagnostic.text())
        };
        assert_eq!(message(false), None);
        assert_eq!(
            message(true).as_deref(),
            Some(
                "`first` is used here, and `second` reuses its shared memory\nhelp: use it before, or give the other tensor memory of its own"
            )
        );
    }
}
