//! Instructions of PTX as functions of numbers.

use super::Evaluator;
use super::args::Args;
use super::reduce::named;
use super::value::Value;
use crate::source::problem::{Problem, count};
use crate::values::typing::{self, Scalar};

/// Beginnings of instructions that do more than compute a number of their operands: accesses, jumps, exchanges, barriers.
const OTHERS: &[&str] = &[
    "ld",
    "st",
    "atom",
    "red",
    "cp",
    "prefetch",
    "applypriority",
    "discard",
    "createpolicy",
    "mbarrier",
    "bar",
    "barrier",
    "fence",
    "membar",
    "bra",
    "brx",
    "call",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "nanosleep",
    "shfl",
    "vote",
    "match",
    "activemask",
    "redux",
    "elect",
    "ldmatrix",
    "stmatrix",
    "mma",
    "wmma",
    "wgmma",
    "tcgen05",
    "multimem",
    "griddepcontrol",
    "setmaxnreg",
    "tex",
    "tld4",
    "suld",
    "sust",
    "sured",
    "alloca",
];

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
        fits(text, numbers.len()).map_err(|problem| problem.arg(0))?;
        let volatile = match named(args, "volatile") {
            None => false,
            Some((Value::Bool(volatile), _)) => *volatile,
            Some((other, span)) => {
                let problem =
                    Problem::new(format!("`volatile` must be true or false, and this is {}", other.kind()));
                return Ok(self.complain(span, problem.help("write volatile = true")));
            }
        };
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

/// Refuses texts that do not compute `%0` of `%1` to `%count`.
fn fits(text: &str, count: usize) -> Result<(), Problem> {
    // `%%` is a register such as `%%smid`.
    let own = text.replace("%%", "");
    let after =
        |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<usize>();
    let mentioned: Vec<usize> = own.split('%').skip(1).filter_map(|part| after(part).ok()).collect();
    if !mentioned.contains(&0) {
        return Err(Problem::new("these instructions have no result").help(
            "write %0 for the result, %1, %2 and on for the operands, and %%smid for a register of PTX",
        ));
    }
    if let Some(most) = mentioned.iter().find(|n| **n > count) {
        let last = if count == 0 { "there are none".into() } else { format!("the last is %{count}") };
        return Err(Problem::new(format!("there is no operand %{most}: {last}"))
            .help("give a number for each operand behind the text: asm::<f32>(\"…\", x, y)"));
    }
    // Of a predicated instruction, `@p add …`, the word after the predicate.
    let first = |instruction: &str| {
        let mut words = instruction.trim_matches(['{', '}', ' ', '\n', '\t']).split_whitespace();
        let word = words.next()?;
        let word = if word.starts_with('@') { words.next()? } else { word };
        Some(word.split('.').next()?.to_owned())
    };
    match text.split(';').filter_map(first).find(|word| OTHERS.contains(&word.as_str())) {
        None => Ok(()),
        Some(word) => Err(Problem::new(format!("`{word}` does more than compute a number of its operands"))
            .help("memory, other lanes and barriers are reached by functions of the language: copy, warp_shuffle, sync_threads, instructions by name")),
    }
}
