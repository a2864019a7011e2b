//! Text of expressions with its precedence and width: operands have the fewest parentheses that are readable.

/// Precedence of an expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    Ternary,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Compare,
    Shift,
    Sum,
    Product,
    Unary,
    Primary,
}

impl Level {
    /// The next higher precedence, which the right operand of an operator needs.
    fn tighter(self) -> Level {
        use Level::*;
        match self {
            Ternary => Or,
            Or => And,
            And => BitOr,
            BitOr => BitXor,
            BitXor => BitAnd,
            BitAnd => Equal,
            Equal => Compare,
            Compare => Shift,
            Shift => Sum,
            Sum => Product,
            Product => Unary,
            Unary | Primary => Primary,
        }
    }
}

/// A piece of an expression.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) level: Level,
    /// Is its type in C 64 bits wide?
    pub(super) wide: bool,
}

impl Piece {
    pub(super) fn new(text: impl Into<String>, level: Level) -> Piece {
        Piece { text: text.into(), level, wide: false }
    }

    /// The text as an operand at this precedence.
    pub(super) fn at(&self, level: Level) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }

    pub(super) fn widened(self) -> Piece {
        if self.wide {
            return self;
        }
        Piece { text: format!("(long long){}", self.at(Level::Unary)), level: Level::Unary, wide: true }
    }

    /// In 64 bits without a sign, in which arithmetic wraps.
    pub(super) fn unsigned(self) -> Piece {
        let text = format!("(unsigned long long){}", self.at(Level::Unary));
        Piece { text, level: Level::Unary, wide: true }
    }

    pub(super) fn narrowed(self) -> Piece {
        if !self.wide {
            return self;
        }
        Piece { text: format!("(int){}", self.at(Level::Unary)), level: Level::Unary, wide: false }
    }
}

/// An operator, left to right: how its operands are joined.
pub(super) fn binary(left: &Piece, sign: &str, right: &Piece, level: Level) -> Piece {
    let bits = (Level::BitOr..=Level::BitAnd).contains(&level) || level == Level::Shift;
    // Parentheses around bits and shifts, and around `a % 32 * 4` and `a % 32 / 4`, which are hard to read.
    let careful = |piece: &Piece, needed: Level| {
        let surprising = bits && piece.level < Level::Unary && piece.level != level;
        let within = |signs: &[&str]| signs.iter().any(|sign| outside(&piece.text, sign));
        let mixed = piece.level == Level::Product
            && (sign == "*" && within(&[" / ", " % "]) || sign == "/" && within(&[" % "]));
        if surprising || mixed { format!("({})", piece.text) } else { piece.at(needed) }
    };
    let text = format!("{} {sign} {}", careful(left, level), careful(right, level.tighter()));
    Piece { text, level, wide: left.wide || right.wide }
}

/// Does the sign occur outside all parentheses?
pub(super) fn outside(text: &str, sign: &str) -> bool {
    let mut depth = 0;
    text.char_indices().any(|(at, c)| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth == 0 && text[at..].starts_with(sign)
    })
}

/// An integer constant.
pub(super) fn constant(n: i64) -> Piece {
    let level = if n < 0 { Level::Unary } else { Level::Primary };
    match i32::try_from(n) {
        Ok(i32::MIN) => Piece::new("(-2147483647 - 1)", Level::Primary),
        Ok(n) => Piece::new(n.to_string(), level),
        Err(_) => Piece { wide: true, ..Piece::new(format!("{n}LL"), level) },
    }
}
