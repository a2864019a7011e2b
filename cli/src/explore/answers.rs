//! The questions of the page, each answered as JSON by functions of the other subcommands.

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};

use super::{kernels, timeline};
use crate::choose::{self, Decision, Device};
use crate::kernel;
use crate::kernel::written::{self, Messages};
use crate::layout;
use crate::output::{self, Failure, Result};
use crate::run::input::Input;

/// The limit of a process that answers.
const SLOWEST: Duration = Duration::from_secs(10);

/// Most expressions in one question.
const MOST_EXPRESSIONS: usize = 32;

/// A question with its words.
type Answers = fn(&Question) -> Result<Value>;

const QUESTIONS: &[(&str, Answers)] = &[
    ("list", list),
    ("layouts", layouts),
    ("kernel", kernels::kernel),
    ("part", kernels::part),
    ("choose", choose),
    ("run", timeline::run),
];

/// The body of a question.
pub(super) struct Question(Value);

impl Question {
    /// A text, empty if it is not given.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// A text that is not empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0[name].as_u64()
    }

    /// Arguments in words, as `--input` takes them, separated by semicolons.
    pub(super) fn inputs(&self) -> Result<Vec<Input>> {
        let inputs = self.text("inputs").split(';').map(str::trim);
        inputs.filter(|input| !input.is_empty()).map(Input::read).collect()
    }

    /// The kernel that it names, or whose text it contains.
    pub(super) fn kernel(&self) -> Result<kernel::Chosen> {
        match self.written() {
            Some(written) => Ok(written?),
            None => kernel::choose(self.text("kernel"), self.text("keys")),
        }
    }

    /// The kernel whose text it contains, or its mistakes.
    pub(super) fn written(&self) -> Option<std::result::Result<kernel::Chosen, Messages>> {
        self.0["text"].as_str().map(|text| written::choose(text, self.text("keys")))
    }
}

pub(super) fn is_known(question: &str) -> bool {
    QUESTIONS.iter().any(|(name, _)| *name == question)
}

/// Answers the question of this name, whose body is on standard input. After the limit it answers with an error and ends.
pub(super) fn print(question: &str) -> Result {
    std::thread::spawn(|| {
        std::thread::sleep(SLOWEST);
        let why =
            format!("this took more than {} s; take smaller sizes, or fewer alternatives", SLOWEST.as_secs());
        let written = output::write(json!({ "error": why }).to_string().as_bytes());
        std::process::exit(i32::from(written.is_err()));
    });
    let Some((_, answer)) = QUESTIONS.iter().find(|(name, _)| *name == question) else {
        return Err(Failure::of("there is no such question"));
    };
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body).map_err(Failure::of)?;
    let answer = match serde_json::from_slice(&body) {
        Ok(body) => answer(&Question(body)),
        Err(why) => Err(Failure::Refused(format!("the question is no JSON: {why}"))),
    };
    let answer = answer.unwrap_or_else(|why| match why {
        Failure::Refused(why) => json!({ "error": why }),
        Failure::Wrong => json!({ "error": "the result is wrong" }),
    });
    output::print(&answer.to_string())
}

/// The kernels and the operations on layouts that the page can name.
fn list(_: &Question) -> Result<Value> {
    let kernels = kernel::listed();
    let kernels = kernels.iter().map(|one| json!({ "name": one.name, "about": one.about }));
    Ok(json!({ "kernels": kernels.collect::<Vec<_>>(), "operations": layout::json::operations() }))
}

/// Layouts, each from its expression.
fn layouts(question: &Question) -> Result<Value> {
    let expressions = question.0["expressions"].as_array().cloned().unwrap_or_default();
    if expressions.len() > MOST_EXPRESSIONS {
        return Err(Failure::Refused(format!("a question has at most {MOST_EXPRESSIONS} expressions")));
    }
    let bytes = question.number("bytes").filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8 | 16)).unwrap_or(4);
    let answer = |text: &Value| layout::json::answer(text.as_str().unwrap_or_default(), bytes as i64);
    Ok(expressions.iter().map(answer).collect())
}

/// The decision of a launch.
fn choose(question: &Question) -> Result<Value> {
    let multiprocessors = question.number("multiprocessors").and_then(|count| u32::try_from(count).ok());
    let device = Device { multiprocessors: multiprocessors.filter(|count| *count > 0), name: choose::NAME };
    let chosen = question.kernel()?;
    Ok(Decision::new(chosen.generated, question.given("size"), &question.inputs()?, &device)?.json())
}
