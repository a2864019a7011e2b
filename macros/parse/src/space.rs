//! `choose(…)`: the values of constants among which a launch chooses, as lists, as ranges, and under conditions.

use syn::parse::{Parse, ParseStream};
use syn::{Ident, RangeLimits, Token, bracketed, parenthesized};
use tilewright_program::ast::{self, Binary, Choice, ExprKind, Unary};
use tilewright_program::launch::Candidates;

use crate::expr::expr;
use crate::keys::number_of;
use crate::text::{Text, TokenRange};

/// An entry of `choose`.
pub(crate) enum Entry {
    /// `(BM, BN) in [(128, 256), (64, 128)]`
    List(Vec<Ident>, Vec<syn::Expr>),
    /// `(BM, BN) in h200::linear`
    Named(Vec<Ident>, syn::Path),
    /// `BN in 32..=256 step 32`
    Range(Ident, Box<syn::ExprRange>, Option<Box<syn::Expr>>),
    /// `if BM * BN <= 32768`
    Condition(Box<syn::Expr>),
}

const VALUES: &str = "write `choose(BM in [64, 128])`, `choose(BM in 32..=256 step 32)`, or `choose((BM, BN) in [(64, 128), (128, 64)])`";
const CONDITION: &str = "compare constants that `choose` lists: `if BM * BN <= 32768`";
/// Most values of a range, and most combinations that conditions select from.
const MAX_COMBINATIONS: usize = 1 << 16;

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Entry> {
        if input.parse::<Option<Token![if]>>()?.is_some() {
            return Ok(Entry::Condition(Box::new(input.parse()?)));
        }
        let wrong = |error: syn::Error| {
            syn::Error::new(error.span(), format!("this lists no values\nhelp: {VALUES}"))
        };
        let names: Vec<Ident> = if input.peek(syn::token::Paren) {
            let inside;
            parenthesized!(inside in input);
            inside.parse_terminated(Ident::parse, Token![,]).map_err(wrong)?.into_iter().collect()
        } else {
            vec![input.parse::<Ident>().map_err(wrong)?]
        };
        input.parse::<Token![in]>().map_err(wrong)?;
        if !input.peek(syn::token::Bracket) {
            let start = input.fork();
            let range = match (&names[..], input.parse::<syn::Expr>()) {
                (_, Ok(syn::Expr::Path(list))) if list.path.segments.len() == 2 && !names.is_empty() => {
                    return Ok(Entry::Named(names, list.path));
                }
                ([name], Ok(syn::Expr::Range(range))) if range.start.is_some() && range.end.is_some() => {
                    (name.clone(), Box::new(range))
                }
                _ => return Err(wrong(start.error(""))),
            };
            let step = match input.parse::<Option<Ident>>()? {
                None => None,
                Some(word) if word == "step" => Some(Box::new(input.parse()?)),
                Some(word) => return Err(wrong(syn::Error::new(word.span(), ""))),
            };
            return Ok(Entry::Range(range.0, range.1, step));
        }
        let inside;
        let brackets = bracketed!(inside in input);
        let rows: Vec<syn::Expr> =
            inside.parse_terminated(syn::Expr::parse, Token![,])?.into_iter().collect();
        if rows.is_empty() || names.is_empty() {
            return Err(wrong(syn::Error::new(brackets.span.join(), "")));
        }
        Ok(Entry::List(names, rows))
    }
}

/// The choices that entries make; errors are recorded in the text. Choices whose constants a condition compares become one.
pub(crate) fn choices(entries: Vec<Entry>, text: &mut Text) -> Vec<Choice> {
    let (mut choices, mut conditions) = (Vec::<Choice>::new(), Vec::new());
    for entry in entries {
        let (names, rows) = match entry {
            Entry::Condition(condition) => {
                conditions.push(condition);
                continue;
            }
            Entry::List(names, rows) => {
                let rows = rows.iter().filter_map(|row| values(row, names.len(), text)).collect();
                (names, rows)
            }
            Entry::Named(names, list) => {
                let rows = candidates(&list, names.len(), text).unwrap_or_default();
                (names, rows)
            }
            Entry::Range(name, range, step) => {
                (vec![name], range_values(&range, step.as_deref(), text).unwrap_or_default())
            }
        };
        let known: Vec<String> =
            choices.iter().flat_map(|choice| &choice.names).map(|name| name.text.clone()).collect();
        for (at, name) in names.iter().enumerate() {
            if known.iter().any(|known| name == known) || names[..at].contains(name) {
                text.wrong(name.span(), format!("the values of `{name}` are listed twice"), "list them once");
            }
        }
        choices.push(Choice { names: names.iter().map(|name| text.name(name)).collect(), rows });
    }
    conditions.iter().for_each(|condition| select(&mut choices, condition, text));
    choices
}

/// Keeps the combinations for which a condition is true.
fn select(choices: &mut Vec<Choice>, condition: &syn::Expr, text: &mut Text) {
    let condition = &expr(condition, text);
    if matches!(condition.kind, ExprKind::Hole) {
        return; // reported already
    }
    let compared = condition.names();
    let is_compared = |choice: &Choice| choice.names.iter().any(|name| compared.contains_key(&*name.text));
    let Some(first) = choices.iter().position(is_compared) else {
        let at = text.tokens_of(condition.span);
        return text.wrong(at, "this condition compares no constant that is listed", CONDITION);
    };
    let (joined, others): (Vec<Choice>, Vec<Choice>) = choices.drain(..).partition(is_compared);
    let mut joint = Choice { names: Vec::new(), rows: vec![Vec::new()] };
    for Choice { names, rows } in joined {
        joint.names.extend(names);
        let count = joint.rows.len().saturating_mul(rows.len());
        if count > MAX_COMBINATIONS {
            let what = format!(
                "a condition selects from {MAX_COMBINATIONS} combinations at most, and these are {count}"
            );
            return text.wrong(text.tokens_of(condition.span), what, "list fewer values");
        }
        let longer = |row: &Vec<i64>| rows.iter().map(|more| [&row[..], more].concat()).collect::<Vec<_>>();
        joint.rows = joint.rows.iter().flat_map(longer).collect();
    }
    let is_listed = !joint.rows.is_empty();
    let mut wrong = None;
    joint.rows.retain(|row| {
        let value = |name: &str| {
            let at = joint.names.iter().position(|known| known.text == name)?;
            row.get(at).copied()
        };
        is_true(condition, &value).unwrap_or_else(|part| {
            wrong.get_or_insert(part.span);
            false
        })
    });
    match wrong {
        Some(span) => {
            text.wrong(text.tokens_of(span), "this is no comparison of constants, or has no value", CONDITION)
        }
        None if is_listed && joint.rows.is_empty() => {
            let at = text.tokens_of(condition.span);
            text.wrong(
                at,
                "no combination of the listed values satisfies this condition",
                "list other values",
            );
        }
        None => {}
    }
    *choices = others;
    choices.insert(first.min(choices.len()), joint);
}

/// Whether a condition is true with these values of constants; or the part that is no comparison of constants, or has no value.
fn is_true<'e>(condition: &'e ast::Expr, value: &dyn Fn(&str) -> Option<i64>) -> Result<bool, &'e ast::Expr> {
    match &condition.kind {
        ExprKind::Unary(Unary::Not, inner) => Ok(!is_true(inner, value)?),
        ExprKind::Binary(Binary::And, left, right) => Ok(is_true(left, value)? && is_true(right, value)?),
        ExprKind::Binary(Binary::Or, left, right) => Ok(is_true(left, value)? || is_true(right, value)?),
        ExprKind::Binary(operator, left, right) => {
            let numbers = (number_of(left, value)?, number_of(right, value)?);
            operator.compare(numbers.0, numbers.1).ok_or(condition)
        }
        _ => Err(condition),
    }
}

/// The values of a range, a row each.
fn range_values(range: &syn::ExprRange, step: Option<&syn::Expr>, text: &mut Text) -> Option<Vec<Vec<i64>>> {
    let bounds = [range.start.as_deref(), range.end.as_deref(), step];
    // Every bound is read, so that every mistake is reported.
    let [first, last, step] = bounds.map(|bound| bound.map(|bound| size(bound, text)));
    let (first, last, step) = (first??, last??, step.unwrap_or(Some(1))?);
    let last = if matches!(range.limits, RangeLimits::HalfOpen(_)) { last.saturating_sub(1) } else { last };
    let step = usize::try_from(step).ok().filter(|step| *step > 0);
    let count = step.map_or(0, |step| last.saturating_sub(first).saturating_add(1).max(0) as usize / step);
    match step {
        Some(step) if first <= last && count <= MAX_COMBINATIONS => {
            Some((first..=last).step_by(step).map(|value| vec![value]).collect())
        }
        _ => {
            text.wrong(TokenRange::of(range), "this range has no values, or too many", VALUES);
            None
        }
    }
}

/// The first `count` columns of a list that ships.
fn candidates(path: &syn::Path, count: usize, text: &mut Text) -> Option<Vec<Vec<i64>>> {
    let name = path.segments.iter().map(|part| part.ident.to_string()).collect::<Vec<_>>().join("::");
    let all = Candidates::all();
    let Some(list) = all.iter().find(|list| list.name == name) else {
        let names: Vec<String> = all.iter().map(|list| format!("`{}`", list.name)).collect();
        let instead = format!("the lists are {}", names.join(", "));
        text.wrong(TokenRange::of(path), format!("there is no list of candidates `{name}`"), &instead);
        return None;
    };
    if count > list.columns.len() {
        let what = format!("`{name}` has values of {} constants, and these are {count}", list.columns.len());
        let instead = format!("take its columns in order: ({})", list.columns.join(", "));
        text.wrong(TokenRange::of(path), what, &instead);
        return None;
    }
    Some(list.first_columns(count))
}

/// The values of `count` constants.
fn values(from: &syn::Expr, count: usize, text: &mut Text) -> Option<Vec<i64>> {
    let parts: Vec<&syn::Expr> = match from {
        syn::Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        one => vec![one],
    };
    if parts.len() != count {
        let values = if parts.len() == 1 { "value" } else { "values" };
        let what = format!("{} {values} for {count} constants", parts.len());
        text.wrong(TokenRange::of(from), what, VALUES);
        return None;
    }
    // Every part is read, so that every mistake is reported.
    let read: Vec<Option<i64>> = parts.into_iter().map(|part| size(part, text)).collect();
    read.into_iter().collect()
}

fn size(from: &syn::Expr, text: &mut Text) -> Option<i64> {
    let known = number_of(&expr(from, text), &|_| None).ok();
    if known.is_none() {
        text.wrong(TokenRange::of(from), "this is not a size", "write an integer such as `64`");
    }
    known
}
