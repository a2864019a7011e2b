//! Why a launch is refused.

use std::fmt;

use super::message::HELP;

/// A launch that was refused before anything ran: the argument at fault, with numbers, and the remedy.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal {
    argument: Option<String>,
    message: String,
    help: Option<String>,
}

impl Refusal {
    /// A refusal that blames no argument.
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal { argument: None, message: message.into(), help: None }
    }

    /// Blames an argument.
    pub fn of(argument: &str, message: impl Into<String>) -> Refusal {
        Refusal { argument: Some(argument.into()), ..Refusal::new(message) }
    }

    /// Adds the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
        self
    }

    /// The argument that is to blame.
    pub fn argument(&self) -> Option<&str> {
        self.argument.as_deref()
    }

    /// Why no variant can run: each reason once, with its variants, then each remedy once.
    pub(super) fn none_fits(why: &[String]) -> Refusal {
        let mut reasons: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut remedies: Vec<&str> = Vec::new();
        for (at, why) in why.iter().enumerate() {
            let (reason, remedy) =
                why.split_once(HELP).map_or((&**why, None), |(why, help)| (why, Some(help)));
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, variants)) => variants.push(at + 1),
                None => reasons.push((reason, vec![at + 1])),
            }
            remedies.extend(remedy.filter(|remedy| !remedies.contains(remedy)));
        }
        let message = match &reasons[..] {
            [(reason, _)] => (*reason).to_owned(),
            all => {
                let line = |(why, variants): &(&str, Vec<usize>)| format!("\n  {}: {why}", listed(variants));
                format!("no variant of the kernel can run here{}", all.iter().map(line).collect::<String>())
            }
        };
        match remedies.is_empty() {
            true => Refusal::new(message),
            false => Refusal::new(message).help(remedies.join(HELP)),
        }
    }
}

/// `variant 3`; `variants 1 to 4, 7`
fn listed(variants: &[usize]) -> String {
    if let [one] = variants {
        return format!("variant {one}");
    }
    let runs = variants.chunk_by(|before, next| before + 1 == *next);
    let runs = runs.map(|run| match run {
        [first, .., last] => format!("{first} to {last}"),
        one => one[0].to_string(),
    });
    format!("variants {}", runs.collect::<Vec<_>>().join(", "))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(argument) = &self.argument {
            write!(f, "argument `{argument}`: ")?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

/// The traits of an error besides its text, which `unwrap` shows too, and the errors that are variants of it.
#[doc(hidden)]
#[macro_export]
macro_rules! error_with_text {
    ($error:ident $(, $variant:ident($from:ty))* $(,)?) => {
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::error::Error for $error {}

        $(impl From<$from> for $error {
            fn from(error: $from) -> $error {
                $error::$variant(error)
            }
        })*
    };
}

error_with_text!(Refusal);
