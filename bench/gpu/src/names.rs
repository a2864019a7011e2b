//! Short names of kernels for tables and plots: keys can be two hundred characters long.

/// The longest name in a table.
const LONGEST: usize = 32;
/// Keys that the title of a table says: they come last in a name, and are the first to be left out.
const TITLED: [&str; 5] = ["dtype", "a", "b", "c", "batched"];

/// A name for each text of keys: the key `name`, or the keys that not all of the texts have. Different keys have
/// different names.
pub(crate) fn short(all: &[&str]) -> Vec<String> {
    let split: Vec<Vec<&str>> = all.iter().map(|keys| words(keys)).collect();
    let shared = |word: &&&str| all.len() > 1 && split.iter().all(|words| words.contains(word));
    let mut names: Vec<String> = Vec::new();
    for (at, words) in split.iter().enumerate() {
        let named = words.iter().find_map(|word| word.strip_prefix("name="));
        let kept: Vec<&str> = words.iter().filter(|word| !shared(word)).copied().collect();
        let mut name = match named {
            Some(name) => name.to_owned(),
            None if words.is_empty() => "matmul".to_owned(),
            None if kept.is_empty() => "no further keys".to_owned(),
            None => shortened(&kept),
        };
        if (0..at).any(|other| names[other] == name && all[other] != all[at]) {
            name = format!("{name} #{}", at + 1);
        }
        names.push(name);
    }
    names
}

/// The words that fit, and a mark for the others.
fn shortened(words: &[&str]) -> String {
    let all = words.join(" ");
    if all.chars().count() <= LONGEST {
        return all;
    }
    let most = LONGEST - 2;
    let mut kept = String::new();
    let titled = |word: &&&str| word.split_once('=').is_some_and(|(key, _)| TITLED.contains(&key));
    let others = words.iter().filter(|word| !titled(word));
    for word in others.chain(words.iter().filter(titled)) {
        if kept.chars().count() + 1 + word.chars().count() > most {
            break;
        }
        kept += if kept.is_empty() { "" } else { " " };
        kept += word;
    }
    if kept.is_empty() {
        kept = all.chars().take(most).collect();
    }
    kept + " …"
}

/// Keys with their values: a part without `=` belongs to the value before it.
fn words(keys: &str) -> Vec<&str> {
    let begins = |part: &str| {
        part.split_once('=').is_some_and(|(key, _)| {
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let (mut starts, mut depth): (Vec<usize>, usize) = (Vec::new(), 0);
    for part in keys.split_whitespace() {
        let at = part.as_ptr() as usize - keys.as_ptr() as usize;
        if starts.is_empty() || depth == 0 && begins(part) {
            starts.push(at);
        }
        // Words in parentheses belong to the key before them.
        let count = |sign: char| part.matches(sign).count();
        depth = (depth + count('(')).saturating_sub(count(')'));
    }
    let ends = starts.iter().skip(1).copied().chain([keys.len()]);
    starts.iter().zip(ends).map(|(&start, end)| keys[start..end].trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: &[&str], expected: &[&str]) {
        assert_eq!(short(keys), expected);
    }

    #[test]
    fn names_are_short_and_different() {
        check(&["schedule=(vec=4) bk=16"], &["schedule=(vec=4) bk=16"]);
        check(&["", "bk=16"], &["matmul", "bk=16"]);
        check(&["name=wide arch=90 bm=128", "arch=90 bk=16"], &["wide", "bk=16"]);
        let tensor = "dtype=bf16 arch=90 a=k_major b=k_major";
        check(
            &[tensor, &format!("{tensor} bm=64 bn=128 stages=4 warps=(2, 2)")],
            &["no further keys", "bm=64 bn=128 stages=4 …"],
        );
        check(&["epilogue=|x| max(x, 0.0) bm=64", "bm=64 bn=32"], &["epilogue=|x| max(x, 0.0)", "bn=32"]);
        check(
            &["linear BM=128", "dtype=bf16 a=k_major b=k_major c=n_major mma=mma_sync warps=8"],
            &["linear BM=128", "mma=mma_sync warps=8 …"],
        );
        let long = "tc=swizzled(2,0,-2,((4,2),(8,4)):((1,32),(4,64)))";
        check(&[&format!("{long} bk=8"), &format!("{long} bk=16 {long}1")], &["bk=8", "bk=16 …"]);
        check(
            &[&format!("a={long}"), &format!("a={long}1")],
            &["a=tc=swizzled(2,0,-2,((4,2),(8 …", "a=tc=swizzled(2,0,-2,((4,2),(8 … #2"],
        );
    }
}
