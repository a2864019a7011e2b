//! Instructions of PTX as functions of numbers.

mod instructions;
mod text;

use super::Evaluator;
use super::args::Args;
use super::reduce::named;
use super::value::Value;
use crate::source::problem::{Problem, count};
use crate::values::typing::{self, Scalar};

impl Evaluator {
    /// `asm::<u32>("lop3.b32 %0, %1, %2, %3, 0x96;", a, b, c, model = |a, b, c| a ^ b ^ c)`
    pub(super) fn asm_call(&mut self, args: &Args) -> Result<Value, Problem> {
        if !self.is_unsafe {
            return Err(Problem::new("instructions of PTX are not checked")
                .help("declare the kernel as `unsafe fn`, and document what they require"));
        }
        let elem = self.type_argument(args)?;
        let Some(Value::Text(text)) = args.get(0) else {
            return Err(args.needs(0, "instructions of PTX, as a text,"));
        };
        let numbers: Vec<Scalar> =
            (1..args.values.len()).map(|n| args.number(n)).collect::<Result<_, Problem>>()?;
        text::check(text, numbers.len()).map_err(|problem| problem.arg(0))?;
        let Some(volatile) = self.flag(args, "volatile", false) else { return Ok(Value::Poison) };
        let model = match named(args, "model") {
            None => None,
            Some((Value::Closure(closure), span)) => {
                if closure.params.len() != numbers.len() {
                    let (takes, given) =
                        (count(closure.params.len(), "number"), count(numbers.len(), "operand"));
                    let problem =
                        Problem::new(format!("the model takes {takes}, and the instructions have {given}"));
                    return Ok(self.complain(span, problem.help("write one parameter for each operand")));
                }
                let closure = closure.clone();
                let values = numbers.iter().cloned().map(Value::Number).collect();
                let value = self.applied_to(&closure, values);
                match value.as_number() {
                    _ if matches!(value, Value::Poison) => return Ok(Value::Poison),
                    Some(number) => match number.into_elem(elem) {
                        Ok(number) => Some(Scalar::new(number, elem)),
                        Err(problem) => return Ok(self.complain(span, problem)),
                    },
                    None => {
                        let problem = Problem::new(format!(
                            "the model returns {}, and a number is needed",
                            value.kind()
                        ));
                        return Ok(
                            self.complain(span, problem.help("end it with arithmetic on its parameters"))
                        );
                    }
                }
            }
            Some((other, span)) => {
                let problem = Problem::new(format!(
                    "the simulator computes the model instead of the instructions, and this is {}",
                    other.kind()
                ));
                return Ok(self
                    .complain(span, problem.help("write a closure of the operands, model = |a, b| a + b")));
            }
        };
        typing::ptx(text, elem, volatile, numbers, model).map(Value::Number)
    }
}
