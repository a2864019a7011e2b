//! Sentences of documents that have too many words to be read once.

/// The most words of a sentence.
const MAX_WORDS: usize = 25;

/// The long sentences of a document: their lines, their numbers of words, how they begin. Code, tables and headings are left out.
pub(super) fn long_sentences(page: &str) -> Vec<String> {
    let (mut long, mut words, mut in_block, mut in_span) = (Vec::new(), Vec::new(), false, false);
    for (number, line) in (1..).zip(page.lines().map(str::trim)) {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        let item = after_marker(line);
        let is_prose = !is_fence && !in_block && !line.is_empty() && !line.starts_with(['|', '#', '<', '[']);
        if !is_prose || item.is_some() {
            long.extend(report(&words));
            words.clear();
            in_span = false;
        }
        for word in item.unwrap_or(line).split_whitespace().filter(|_| is_prose) {
            // Code in quotes is one word.
            if !in_span && word.contains(char::is_alphanumeric) {
                words.push((number, word));
            }
            in_span ^= word.matches('`').count() % 2 == 1;
            if !in_span && word.trim_end_matches([')', '*', '"']).ends_with(['.', '?', '!']) {
                long.extend(report(&words));
                words.clear();
            }
        }
    }
    long.extend(report(&words));
    long
}

/// The text of a list's item, after its dash or number.
fn after_marker(line: &str) -> Option<&str> {
    let (marker, item) = line.split_once(' ')?;
    let is_number = marker.strip_suffix('.').is_some_and(|number| number.parse::<u8>().is_ok());
    (marker == "-" || is_number).then_some(item)
}

fn report(words: &[(usize, &str)]) -> Option<String> {
    let begin = words.iter().take(8).map(|word| word.1).collect::<Vec<_>>().join(" ");
    (words.len() > MAX_WORDS).then(|| format!("line {}: {} words: {begin} …", words[0].0, words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(page: &str, expected: &[&str]) {
        assert_eq!(long_sentences(page), expected, "{page}");
    }

    #[test]
    fn sentences_are_counted() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let (most, more) = (words(MAX_WORDS), words(MAX_WORDS + 1));
        let long = |line: usize| format!("line {line}: 26 words: {} …", words(8));
        check(&format!("{most}.\n{most}.\n\n- {most}\n2. {most}\n```\n{more}\n```\n| {more} |"), &[]);
        check(&format!("{most}\nword. {more}!\n\n- {more}"), &[&long(1), &long(2), &long(4)]);
        check(&format!("{most} = `a b. c`"), &[&long(1)]);
        check(&format!("{} `a b. c`, = ·", words(MAX_WORDS - 1)), &[]);
    }
}
