//! The text of instructions: registers in braces, and instructions that compute `%0` of `%1` and on. Everything else is refused.

use super::instructions::{computes, is_special, is_type, takes};
use crate::source::problem::{Problem, Result};

#[derive(Clone, PartialEq, Debug)]
enum Token {
    /// `%2`: the result is 0, the first operand 1.
    Operand(usize),
    /// An instruction or a register, with all that a point joins to it. `%%smid` is a register.
    Word(String),
    Number,
    /// `.reg`, `.u32`
    Directive(String),
    Sign(char),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Operand(n) => write!(f, "%{n}"),
            Token::Word(word) => f.write_str(word),
            Token::Number => f.write_str("a number"),
            Token::Directive(word) => write!(f, ".{word}"),
            Token::Sign(sign) => write!(f, "{sign}"),
        }
    }
}

/// A text without comments, as tokens.
fn tokens(text: &str) -> Result<Vec<Token>> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let after = |n: usize| rest.get(n..).unwrap_or_default();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
        // The length of the longest word, with points, that begins at a byte.
        let joined = |from: usize| {
            let all = after(from);
            from + all.find(|c| !is_word(c) && c != '.').unwrap_or(all.len())
        };
        let len = match first {
            c if c.is_ascii_whitespace() => 1,
            '/' if after(1).starts_with('/') => rest.find('\n').unwrap_or(rest.len()),
            '/' if after(1).starts_with('*') => match after(2).find("*/") {
                Some(end) => end + 4,
                None => {
                    return Err(Problem::new("a comment of these instructions has no end").help("end it: */"));
                }
            },
            '%' if after(1).starts_with('%') => {
                let len = joined(2);
                all.push(Token::Word(rest[1..len].to_owned()));
                len
            }
            '%' => {
                let end = after(1).find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| end + 1);
                let Ok(number) = rest[1..end].parse() else {
                    return Err(Problem::new("`%` is neither an operand nor a register here").help(
                        "write %0 for the result, %1 for the first operand, and %%smid for a register of PTX",
                    ));
                };
                all.push(Token::Operand(number));
                end
            }
            '.' => {
                let len = joined(1);
                all.push(Token::Directive(rest[1..len].to_owned()));
                len
            }
            '0'..='9' => {
                all.push(Token::Number);
                joined(0)
            }
            c if is_word(c) => {
                let len = joined(0);
                all.push(Token::Word(rest[..len].to_owned()));
                len
            }
            c => {
                all.push(Token::Sign(c));
                c.len_utf8()
            }
        };
        rest = after(len);
    }
    Ok(all)
}

/// A register that the text declares.
struct Register {
    name: String,
    written: bool,
}

/// The text up to a token.
struct Text {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// The registers of the open braces.
    scopes: Vec<Vec<Register>>,
    /// The number of operands.
    operands: usize,
    /// The predicates under which the result has been written, negated or not; `None` is always.
    written: Vec<Option<(bool, String)>>,
}

/// Refuses texts that do more than compute `%0` of `%1` to `%operands`.
pub(super) fn check(text: &str, operands: usize) -> Result<()> {
    let tokens = tokens(text)?.into_iter().peekable();
    let mut text = Text { tokens, scopes: Vec::new(), operands, written: Vec::new() };
    text.all()?;
    let always = |written: &Option<(bool, String)>| match written {
        None => true,
        Some((negated, by)) => text.written.contains(&Some((!negated, by.clone()))),
    };
    match text.written.iter().any(always) {
        true => Ok(()),
        false if text.written.is_empty() => Err(Problem::new("these instructions have no result").help(
            "write %0 for the result, %1, %2 and on for the operands, and %%smid for a register of PTX",
        )),
        false => Err(Problem::new("a predicate decides whether these instructions write the result, %0")
            .help(
                "write it without a predicate first, or under the negated predicate too; or choose by selp",
            )),
    }
}

impl Text {
    fn all(&mut self) -> Result<()> {
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Sign('{') => self.scopes.push(Vec::new()),
                Token::Sign('}') => {
                    if self.scopes.pop().is_none() {
                        return Err(Problem::new("`}` closes no brace of these instructions")
                            .help("remove it, or open the brace: { .reg .f32 t; … }"));
                    }
                }
                Token::Directive(name) if name == "reg" => self.declaration()?,
                Token::Directive(name) => {
                    return Err(Problem::new(format!("`.{name}` is no declaration of registers"))
                        .help("only registers can be declared, in braces: { .reg .f32 t; … }"));
                }
                Token::Sign(';') => {}
                Token::Sign('@') => {
                    let negated = self.tokens.next_if_eq(&Token::Sign('!')).is_some();
                    let predicate = self.word("a predicate")?;
                    self.read(&predicate)?;
                    let name = self.word("an instruction")?;
                    self.instruction(&name, Some((negated, predicate)))?;
                }
                Token::Word(name) => self.instruction(&name, None)?,
                other => {
                    return Err(Problem::new(format!("`{other}` begins no instruction"))
                        .help("end each instruction with `;`, as in add.f32 %0, %1, %2;"));
                }
            }
        }
        match self.scopes.is_empty() {
            true => Ok(()),
            false => Err(Problem::new("a brace of these instructions is not closed").help("close it: `}`")),
        }
    }

    fn word(&mut self, wanted: &str) -> Result<String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word),
            Some(other) => Err(expected(wanted, &other)),
            None => Err(unfinished()),
        }
    }

    /// `.reg .f32 a, b;`
    fn declaration(&mut self) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return Err(Problem::new("these registers are declared outside of braces, and a kernel may contain the instructions twice")
                .help("write braces around all instructions: { .reg .f32 t; … }"));
        };
        match self.tokens.next() {
            Some(Token::Directive(ty)) if is_type(&ty) => {}
            Some(other) => return Err(expected("the type of registers, such as .f32,", &other)),
            None => return Err(unfinished()),
        }
        loop {
            match self.tokens.next() {
                Some(Token::Word(name)) if !name.contains('.') => {
                    scope.push(Register { name, written: false });
                }
                Some(other) => return Err(expected("the name of a register", &other)),
                None => return Err(unfinished()),
            }
            match self.tokens.next() {
                Some(Token::Sign(',')) => {}
                Some(Token::Sign(';')) => return Ok(()),
                Some(other) => return Err(expected("`,` or `;`", &other)),
                None => return Err(unfinished()),
            }
        }
    }

    /// `add.f32 %0, %1, %2;`, after its name.
    fn instruction(&mut self, name: &str, predicate: Option<(bool, String)>) -> Result<()> {
        if !name.contains('.') && self.tokens.peek() == Some(&Token::Sign(':')) {
            return Err(Problem::new(format!("`{name}:` is a label, and these instructions cannot jump"))
                .help(
                    "compute both alternatives, and choose by selp; or write a loop or `if` in the kernel",
                ));
        }
        let mut parts = name.split('.');
        let base = parts.next().unwrap_or_default();
        if !computes(base) {
            return Err(Problem::new(format!("`{base}` is not an instruction that only computes a number of its operands"))
                .help("arithmetic, conversions, logic, comparisons and moves of registers can be written; memory, other lanes and barriers are reached by functions of the language: copy, warp_shuffle, sync_threads, instructions by name"));
        }
        if let Some(modifier) = parts.find(|modifier| !takes(base, modifier)) {
            return Err(Problem::new(format!("`{base}` has no modifier `.{modifier}` here"))
                .help("only modifiers are known with which an instruction computes a number of its operands, without flags"));
        }
        let mut results = Vec::new();
        self.operand(&mut |_, token| {
            results.push(token);
            Ok(())
        })?;
        loop {
            match self.tokens.next() {
                Some(Token::Sign(',')) => self.operand(&mut |text, token| match token {
                    Token::Word(name) => text.read(&name),
                    Token::Operand(n) => text.read_operand(n),
                    _ => Ok(()),
                })?,
                Some(Token::Sign(';')) => break,
                Some(other) => return Err(expected("`,` or `;`", &other)),
                None => return Err(unfinished()),
            }
        }
        results.into_iter().try_for_each(|result| self.write(result, predicate.as_ref()))
    }

    /// An operand: a register or a number, several of them in braces, or two with `|` between.
    fn operand(&mut self, each: &mut dyn FnMut(&mut Text, Token) -> Result<()>) -> Result<()> {
        let is_list = self.tokens.next_if_eq(&Token::Sign('{')).is_some();
        loop {
            while self.tokens.next_if(|token| matches!(token, Token::Sign('-' | '!'))).is_some() {}
            match self.tokens.next() {
                Some(token @ (Token::Operand(_) | Token::Word(_) | Token::Number)) => each(self, token)?,
                Some(Token::Sign('[')) => {
                    return Err(Problem::new(
                        "`[` accesses memory, and these instructions compute with registers alone",
                    )
                    .help("load elements in the kernel, and pass them as operands"));
                }
                Some(other) => return Err(expected("a register, an operand or a number", &other)),
                None => return Err(unfinished()),
            }
            let joins = if is_list { ',' } else { '|' };
            if self.tokens.next_if_eq(&Token::Sign(joins)).is_none() {
                break;
            }
        }
        match is_list.then(|| self.tokens.next()) {
            None | Some(Some(Token::Sign('}'))) => Ok(()),
            Some(Some(other)) => Err(expected("`,` or `}`", &other)),
            Some(None) => Err(unfinished()),
        }
    }

    fn register(&mut self, name: &str) -> Option<&mut Register> {
        self.scopes.iter_mut().rev().find_map(|scope| scope.iter_mut().rev().find(|known| known.name == name))
    }

    fn read(&mut self, name: &str) -> Result<()> {
        match self.register(name) {
            Some(register) if register.written => Ok(()),
            Some(_) => Err(Problem::new(format!("the register `{name}` is read before it is written"))
                .help("write it first, such as mov.u32 t, 0;")),
            None if name.strip_prefix('%').is_some_and(is_special) || name == "WARP_SZ" => Ok(()),
            None => Err(unknown(name)),
        }
    }

    fn read_operand(&self, number: usize) -> Result<()> {
        if number > self.operands {
            let last = match self.operands {
                0 => "there are none".to_owned(),
                last => format!("the last is %{last}"),
            };
            return Err(Problem::new(format!("there is no operand %{number}: {last}"))
                .help("give a number for each operand behind the text: asm::<f32>(\"…\", x, y)"));
        }
        if number == 0 && self.written.is_empty() {
            return Err(Problem::new("the result, %0, is read before it is written")
                .help("operands are %1, %2 and on; write the result first"));
        }
        Ok(())
    }

    fn write(&mut self, result: Token, predicate: Option<&(bool, String)>) -> Result<()> {
        match result {
            Token::Operand(0) => self.written.push(predicate.cloned()),
            Token::Operand(n) => {
                return Err(Problem::new(format!("%{n} is an operand, and this instruction writes it"))
                    .help("write to the result, %0, or to a register: { .reg .f32 t; … }"));
            }
            Token::Word(name) if name == "_" => {}
            Token::Word(name) => match self.register(&name) {
                Some(register) => register.written = true,
                None => return Err(unknown(&name)),
            },
            other => return Err(expected("the register that an instruction writes", &other)),
        }
        Ok(())
    }
}

fn expected(wanted: &str, token: &Token) -> Problem {
    Problem::new(format!("{wanted} is expected in these instructions, and this is `{token}`"))
        .help("write an instruction as PTX does, such as add.f32 %0, %1, %2;")
}

fn unfinished() -> Problem {
    Problem::new("the last of these instructions has no end")
        .help("end each instruction with `;`, as in add.f32 %0, %1, %2;")
}

fn unknown(name: &str) -> Problem {
    // In the text `%` is written twice.
    let shown = name.replace('%', "%%");
    Problem::new(format!("these instructions declare no register `{shown}`"))
        .help("declare it, { .reg .f32 t; … }; the result is %0, operands are %1, %2 and on, and %%smid is a register of PTX")
}
