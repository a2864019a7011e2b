//! What syn must not see. It reads by recursion, so that deep nesting overflows the compiler's stack; here nesting is
//! measured without recursion, before anybody reads.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use tilewright_codegen::limits::DEEPEST;

/// Most tokens in a row without `,`, `;` or a block's end: a chain of operators is a tree as deep as it is long.
const LONGEST: u32 = 1024;

/// Why tokens cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) at: Span,
    pub(crate) what: String,
    pub(crate) instead: &'static str,
}

/// How deep the reader will be: `deep` counts brackets and what opens a level without one, `long` all tokens.
#[derive(Clone, Copy, Default)]
struct Level {
    deep: u32,
    long: u32,
}

/// One bracket that is being read: its tokens, where its level began, where it is now.
struct Open {
    tokens: std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
    start: Level,
    now: Level,
    /// Is the token before a value, so that an operator here has two operands?
    after_value: bool,
}

impl Open {
    fn new(tokens: TokenStream, start: Level) -> Open {
        Open { tokens: tokens.into_iter().peekable(), start, now: start, after_value: false }
    }
}

/// Refuses tokens that nest too deep to be read.
pub(crate) fn check(tokens: TokenStream) -> Result<(), Unreadable> {
    let mut open = vec![Open::new(tokens, Level::default())];
    while let Some(here) = open.last_mut() {
        let Some(token) = here.tokens.next() else {
            open.pop();
            continue;
        };
        here.now.long += 1;
        match &token {
            TokenTree::Punct(mark) if matches!(mark.as_char(), ',' | ';') => {
                here.now = here.start;
                here.after_value = false;
            }
            TokenTree::Punct(mark) => {
                // `-` in `a - b` is one more link of a chain; in `- - a` it is one more level, and so are `a = b = …`
                // and `A<A<…>>`.
                let links = here.after_value && mark.spacing() == Spacing::Alone && mark.as_char() != '=';
                let opens =
                    !(links && "+-*/%^&|.?".contains(mark.as_char()) || ":>'#".contains(mark.as_char()));
                here.now.deep += u32::from(opens);
                here.after_value = false;
            }
            TokenTree::Ident(word) => {
                let keyword = KEYWORDS.iter().any(|keyword| word == keyword);
                here.now.deep += u32::from(keyword);
                here.after_value = !keyword;
            }
            TokenTree::Literal(_) => here.after_value = true,
            TokenTree::Group(group) => {
                let inner = Level { deep: here.now.deep + 1, long: here.now.long };
                here.after_value = true;
                if group.delimiter() == Delimiter::Brace && ends_statement(here.tokens.peek()) {
                    here.now = here.start;
                }
                refuse(inner, token.span())?;
                open.push(Open::new(group.stream(), inner));
                continue;
            }
        }
        refuse(here.now, token.span())?;
    }
    Ok(())
}

/// Words that begin an expression, a type or a pattern that may begin with the same word again.
const KEYWORDS: [&str; 16] = [
    "if", "else", "match", "while", "for", "loop", "move", "return", "break", "let", "mut", "dyn", "impl",
    "fn", "box", "as",
];

/// After a block: does what follows begin something new?
fn ends_statement(next: Option<&TokenTree>) -> bool {
    match next {
        None => true,
        Some(TokenTree::Ident(word)) => word != "else" && word != "as",
        _ => false,
    }
}

fn refuse(level: Level, at: Span) -> Result<(), Unreadable> {
    let refused = if level.deep > DEEPEST {
        Some(format!("this is nested more than {DEEPEST} levels deep"))
    } else if level.long > LONGEST {
        Some(format!("this expression is longer than {LONGEST} tokens"))
    } else {
        None
    };
    let instead = "give parts of it names, with `let`";
    refused.map_or(Ok(()), |what| Err(Unreadable { at, what, instead }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: Option<&str>) {
        let said = check(text.parse().unwrap()).err().map(|error| error.what);
        assert_eq!(said.as_deref(), expected, "{}", &text[..text.len().min(80)]);
    }

    #[test]
    fn depth_is_bounded_however_it_is_made() {
        const DEEP: Option<&str> = Some("this is nested more than 64 levels deep");
        const LONG: Option<&str> = Some("this expression is longer than 1024 tokens");
        let deep = |n: usize, open: &str, close: &str| format!("f({}x{})", open.repeat(n), close.repeat(n));
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("((), (", "))")] {
            check_text(&deep(30, open, close), None);
            check_text(&deep(100, open, close), DEEP);
        }
        for prefix in
            ["- ", "!", "&", "* ", ".. ", "x = ", "|x| ", "A<", "if x {} else ", "return ", "x @ &", "-("]
        {
            check_text(&deep(20, prefix, if prefix == "-(" { ")" } else { "" }), None);
            check_text(&deep(100, prefix, if prefix == "-(" { ")" } else { "" }), DEEP);
        }
        for link in ["x + ", "x.y().", "x[0]", "x - ", "x * ", "a && ", "a::"] {
            check_text(&format!("f({}x)", link.repeat(20)), None);
        }
        for link in ["x + ", "x.y().", "x[0]", "x - ", "x * ", "x as ", "a::", "?"] {
            let said =
                check(format!("f({}x)", link.repeat(1000)).parse().unwrap()).err().map(|error| error.what);
            assert!(said.as_deref() == LONG || said.as_deref() == DEEP, "{link}");
        }
        check_text(&"let x = (1, 2) + -3; for k in 0..n { f(k) } ".repeat(1000), None);
        check_text(&format!("[{}]", "-1, ".repeat(5000)), None);
    }
}
