//! Functions of an epilogue that the helpers on the device do not have: closures, and less common ones by name. The expected
//! result passes through the host, which evaluates them in double precision.

use std::fmt;
use std::rc::Rc;

use tilewright_codegen::ast::ExprKind;

use super::Result;
use super::driver::{Device, Memory};
use tilewright_cli::Function;

/// A function of one number.
#[derive(Clone, Copy)]
pub(crate) struct Own(&'static Function<'static>);

impl Own {
    /// The function that a key writes; `None` if it cannot be evaluated here.
    pub(crate) fn of(value: &ExprKind) -> Option<Own> {
        // Keys live as long as the command.
        let function = Function::named(Box::leak(Box::new(value.clone())))?;
        Some(Own(Box::leak(Box::new(function))))
    }

    /// Applies it to numbers of double precision on the device.
    pub(crate) fn apply(self, device: &Device, numbers: &Rc<Memory>) -> Result {
        let mut bytes = vec![0; numbers.bytes];
        device.read(numbers, &mut bytes)?;
        self.map(&mut bytes)?;
        device.write(&bytes, numbers)
    }

    /// The same on the host.
    fn map(self, bytes: &mut [u8]) -> Result {
        for number in bytes.as_chunks_mut::<8>().0 {
            let x = f64::from_ne_bytes(*number);
            *number = self.0.at(x).ok_or("a function of the epilogue has no value")?.to_ne_bytes();
        }
        Ok(())
    }
}

/// Each is one of a kernel's own: that two are the same is not known.
impl PartialEq for Own {
    fn eq(&self, other: &Own) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Own {
    /// Its name in a table.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Function::Named(name) => name,
            Function::Closure(..) | Function::Identity => "a closure",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_codegen::words::Words;

    #[track_caller]
    fn own(keys: &str) -> Option<Own> {
        let words = Words::read(keys).unwrap_or_else(|why| panic!("{why}"));
        Own::of(&words.args()[0].value.kind)
    }

    #[test]
    fn closures_are_evaluated_on_the_host() {
        let own = own("epilogue=|x| max(x * 2.0, 1.0)").expect("a function");
        let mut bytes: Vec<u8> = [3.0f64, -1.0].into_iter().flat_map(f64::to_ne_bytes).collect();
        own.map(&mut bytes).expect("numbers");
        let numbers: Vec<f64> =
            bytes.as_chunks::<8>().0.iter().map(|number| f64::from_ne_bytes(*number)).collect();
        assert_eq!((numbers, own.name()), (vec![6.0, 1.0], "a closure"));
    }

    #[test]
    fn what_has_no_value_here_is_no_function() {
        assert!(own("epilogue=|x| x % 2.0").is_none());
        assert_eq!(own("epilogue=tanh").map(Own::name), Some("tanh"));
    }
}
