//! Bounds nesting and numbers before syn parses. syn is a recursive-descent parser, so deep nesting overflows the
//! compiler's stack; here nesting is measured without recursion. syn reads a number in the square of its length.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use tilewright_program::limits::DEEPEST;

/// Most tokens in a row without `,`, `;` or the end of a block: syn nests a chain of operators as deep as it
/// is long.
const LONGEST: u32 = 1024;

/// Most characters of a number. A number of `f64` that is written exactly has 1077.
const LONGEST_NUMBER: usize = 1100;

/// Why tokens are refused.
#[derive(Debug)]
pub struct Unreadable {
    /// The token that is too much.
    pub at: Span,
    /// The mistake.
    pub what: String,
    /// The remedy.
    pub instead: &'static str,
}

/// The parser's depth: `deep` counts brackets and prefixes that open a level without one, `long` all tokens.
#[derive(Clone, Copy, Default)]
struct Level {
    deep: u32,
    long: u32,
}

/// One open bracket: its tokens, the level at its start, the current level.
struct Open {
    tokens: std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
    start: Level,
    now: Level,
    /// Is the previous token a value, so that an operator here is binary?
    after_value: bool,
    /// The depth of the last `if`, whose condition has ended before its `else`.
    branch: u32,
}

impl Open {
    fn new(tokens: TokenStream, start: Level) -> Open {
        Open {
            tokens: tokens.into_iter().peekable(),
            start,
            now: start,
            after_value: false,
            branch: start.deep,
        }
    }
}

/// Refuses tokens that are nested too deep for the parser.
pub fn check(tokens: TokenStream) -> Result<(), Unreadable> {
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
                // `-` in `a - b` is one more link of a chain; in `- - a` it is one more level, and so are
                // `a = b = …` and `A<A<…>>`.
                let links = here.after_value && mark.spacing() == Spacing::Alone && mark.as_char() != '=';
                let opens =
                    !(links && "+-*/%^&|.?".contains(mark.as_char()) || ":>'#".contains(mark.as_char()));
                here.now.deep += u32::from(opens);
                here.after_value = false;
            }
            TokenTree::Ident(word) => {
                let keyword = KEYWORDS.iter().any(|keyword| word == keyword);
                if word == "if" {
                    here.branch = here.now.deep;
                } else if word == "else" {
                    here.now.deep = here.branch;
                }
                here.now.deep += u32::from(keyword);
                here.after_value = !keyword;
            }
            TokenTree::Literal(literal) => {
                here.after_value = true;
                let text = literal.to_string();
                if text.starts_with(char::is_numeric) && text.len() > LONGEST_NUMBER {
                    let what = format!(
                        "this number has {} characters, and {LONGEST_NUMBER} are the most",
                        text.len()
                    );
                    return Err(Unreadable { at: token.span(), what, instead: "write a shorter one" });
                }
            }
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

/// Keywords that begin an expression, a type or a pattern that may begin with the same keyword again.
const KEYWORDS: [&str; 16] = [
    "if", "else", "match", "while", "for", "loop", "move", "return", "break", "let", "mut", "dyn", "impl",
    "fn", "box", "as",
];

/// After a block: does the next token begin a new statement?
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
        let message = check(text.parse().unwrap()).err().map(|error| error.what);
        assert_eq!(message.as_deref(), expected, "{}", &text[..text.len().min(80)]);
    }

    #[test]
    fn numbers_are_bounded() {
        for suffix in ["", "u32", ".0", "e5"] {
            let number = |length: usize| format!("f(x, {}{suffix})", "7".repeat(length));
            check_text(&number(1000), None);
            let refused =
                format!("this number has {} characters, and 1100 are the most", 100_000 + suffix.len());
            check_text(&number(100_000), Some(&refused));
        }
        check_text(&format!("f(\"{}\")", "7".repeat(100_000)), None);
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
            let message =
                check(format!("f({}x)", link.repeat(1000)).parse().unwrap()).err().map(|error| error.what);
            assert!(message.as_deref() == LONG || message.as_deref() == DEEP, "{link}");
        }
        let chain = |n: usize| format!("f(|x| {}{{ 0.0 }})", "if x == -1 { 1.0 } else ".repeat(n));
        check_text(&chain(55), None);
        check_text(&chain(100), DEEP);
        check_text(&"let x = (1, 2) + -3; for k in 0..n { f(k) } ".repeat(1000), None);
        check_text(&format!("[{}]", "-1, ".repeat(5000)), None);
    }
}
