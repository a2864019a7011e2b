//! Spelling suggestions for unknown names: "did you mean …?".

/// Edit distance with transpositions. Capitals are no mistake.
fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    // Rows of the dynamic programming table: the row before the last one is needed for transpositions.
    let (mut before, mut above) = (Vec::new(), (0..=b.len()).collect::<Vec<_>>());
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// The known names that are nearest, where any is near enough to have been meant.
fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let close = |known: &str| {
        let (least, far) = (distance(name, known), 1 + known.chars().count() / 5);
        let longer = known.chars().count().max(name.chars().count());
        (least <= far && 2 * least < longer.max(1)).then_some(least)
    };
    let near: Vec<_> = known.into_iter().filter_map(|known| Some((close(known)?, known))).collect();
    let least = near.iter().map(|(far, _)| *far).min();
    let mut names: Vec<_> = near.into_iter().filter(|(far, _)| Some(*far) == least).map(|(_, k)| k).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// "did you mean `from`?", where a known name is near.
pub fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let names: Vec<_> = nearest(name, known).iter().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, known: &[&str], expected: &str) {
        assert_eq!(nearest(name, known.iter().copied()).join(" or "), expected);
    }

    #[test]
    fn transpositions_are_one_edit() {
        check("form", &["a", "from", "to"], "from");
        check("cpoy", &["copy", "cos", "composition"], "copy");
        check("tiel", &["tile", "fill"], "tile");
    }

    #[test]
    fn a_letter_is_wrong_missing_or_too_many() {
        check("bnn", &["bm", "bn", "bk"], "bn");
        check("paralelize", &["parallelize"], "parallelize");
        check("__syncthreads", &["sync_threads"], "sync_threads");
        check("stage", &["stages", "staged", "sa"], "staged or stages");
    }

    #[test]
    fn capitals_are_no_mistake() {
        check("BM", &["bm", "bn"], "bm");
        check("m", &["M", "N"], "M");
    }

    #[test]
    fn distant_names_are_not_suggested() {
        check("tl", &["to", "t"], "");
        check("relu", &["exp", "rsqrt"], "");
        check("x", &["y"], "");
        check("", &["y"], "");
    }
}
