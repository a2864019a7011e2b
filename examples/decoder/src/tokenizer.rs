//! Byte-level byte-pair encoding, as GPT-2 and its successors have it.

use std::cmp::Reverse;
use std::collections::HashMap;

use fancy_regex::Regex;

use crate::Result;

/// Text to tokens, and back.
pub struct Tokenizer {
    /// The bytes of each token.
    tokens: Vec<Vec<u8>>,
    /// The token of each single byte. Bytes that no text in UTF-8 has may lack one.
    bytes: [Option<u32>; 256],
    /// The rank of a pair of tokens, and the token that it becomes. Lower ranks are merged first.
    merges: HashMap<(u32, u32), (usize, u32)>,
    /// Control tokens, which no merge makes.
    special: Vec<(String, u32)>,
    /// Tokens by their bytes, where a piece that is a token is not divided, whatever the merges are.
    whole: Option<HashMap<Vec<u8>, u32>>,
    /// Each divides pieces of text into its matches and the text between them.
    patterns: Vec<Regex>,
    /// The token before a text.
    begin: Option<u32>,
    /// Tokens after which a text ends.
    pub end: Vec<u32>,
}

const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const WORDS_OF_LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The patterns of a pre-tokenizer by its name in GGUF files.
pub fn patterns(name: &str) -> Result<Vec<String>> {
    let all: &[&str] = match name {
        "smollm" => &[r"\p{N}", WORDS],
        "default" | "gpt-2" => &[WORDS],
        "llama-bpe" | "llama3" => &[WORDS_OF_LLAMA_3],
        _ => {
            return Err(
                format!("the pre-tokenizer `{name}` is not known: smollm, gpt-2 and llama-bpe are").into()
            );
        }
    };
    Ok(all.iter().map(|of| (*of).to_owned()).collect())
}

/// The patterns of a `tokenizer.json`.
pub fn patterns_of_json(of: &serde_json::Value) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for part in of["pretokenizers"].as_array().map_or(std::slice::from_ref(of), Vec::as_slice) {
        match part["type"].as_str().unwrap_or_default() {
            "Digits" if part["individual_digits"] == true => all.push(r"\p{N}".to_owned()),
            "ByteLevel" if part["use_regex"] == false => {}
            "ByteLevel" => all.push(WORDS.to_owned()),
            "Split" if part["pattern"]["Regex"].is_string() => {
                all.push(part["pattern"]["Regex"].as_str().unwrap_or_default().to_owned());
            }
            kind => return Err(format!("tokenizer.json divides text by `{kind}`, which is not known").into()),
        }
    }
    Ok(all)
}

/// The character that stands for a byte in the texts of tokens: itself if it is printable, or else one from U+0100 on.
fn characters() -> impl Iterator<Item = (char, u8)> {
    let mut next = 0x100;
    (0..=255u8).map(move |byte| {
        if matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) {
            return (char::from(byte), byte);
        }
        next += 1;
        (char::from_u32(next - 1).unwrap_or_default(), byte)
    })
}

impl Tokenizer {
    /// `special` are the numbers of control tokens. A merge is two tokens with a blank between them.
    pub fn new(
        texts: Vec<String>,
        merges: &[String],
        special: Vec<u32>,
        patterns: &[String],
        begin: Option<u32>,
        end: Vec<u32>,
    ) -> Result<Tokenizer> {
        let characters: HashMap<char, u8> = characters().collect();
        let ids: HashMap<&str, u32> = texts.iter().zip(0..).map(|(text, id)| (text.as_str(), id)).collect();
        let merge = |(rank, merge): (usize, &String)| {
            let (left, right) = merge.split_once(' ')?;
            let merged = ids.get(format!("{left}{right}").as_str())?;
            Some(((*ids.get(left)?, *ids.get(right)?), (rank, *merged)))
        };
        let merges = merges.iter().enumerate().filter_map(merge).collect();
        let mut bytes = [None; 256];
        for (character, byte) in &characters {
            bytes[usize::from(*byte)] = ids.get(character.to_string().as_str()).copied();
        }
        let special: Vec<(String, u32)> =
            special.into_iter().filter_map(|id| Some((texts.get(id as usize)?.clone(), id))).collect();
        let of_characters =
            |text: &str| text.chars().map(|of| characters.get(&of).copied()).collect::<Option<Vec<u8>>>();
        let mut tokens: Vec<Vec<u8>> =
            texts.iter().map(|text| of_characters(text).unwrap_or_default()).collect();
        // Control tokens are text as it is.
        special.iter().for_each(|(text, id)| tokens[*id as usize] = text.clone().into_bytes());
        let patterns = patterns.iter().map(|of| Regex::new(of)).collect::<std::result::Result<_, _>>()?;
        Ok(Tokenizer { tokens, bytes, merges, special, whole: None, patterns, begin, end })
    }

    /// Pieces that are tokens are not divided.
    pub fn with_whole_pieces(self) -> Tokenizer {
        let whole = self.tokens.iter().cloned().zip(0..).collect();
        Tokenizer { whole: Some(whole), ..self }
    }

    /// The tokens of a text, in which control tokens are recognised.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut all: Vec<u32> = self.begin.into_iter().collect();
        let mut rest = text;
        while !rest.is_empty() {
            let special = self.special.iter().filter(|(of, _)| !of.is_empty());
            let first =
                special.filter_map(|(of, id)| Some((rest.find(of.as_str())?, Reverse(of.len()), *id))).min();
            let (plain, token, next) = match first {
                Some((at, Reverse(length), id)) => (&rest[..at], Some(id), &rest[at + length..]),
                None => (rest, None, ""),
            };
            for piece in self.pieces(plain)? {
                self.merge(piece.as_bytes(), &mut all);
            }
            all.extend(token);
            rest = next;
        }
        Ok(all)
    }

    fn pieces<'t>(&self, text: &'t str) -> Result<Vec<&'t str>> {
        let mut pieces = vec![text];
        for pattern in &self.patterns {
            let mut parts = Vec::new();
            for piece in pieces {
                let mut start = 0;
                for part in pattern.find_iter(piece) {
                    let part = part?;
                    parts.extend([&piece[start..part.start()], part.as_str()]);
                    start = part.end();
                }
                parts.push(&piece[start..]);
            }
            parts.retain(|part| !part.is_empty());
            pieces = parts;
        }
        Ok(pieces)
    }

    /// Merges the pair of the lowest rank, until no pair has a rank.
    fn merge(&self, piece: &[u8], all: &mut Vec<u32>) {
        if let Some(token) = self.whole.as_ref().and_then(|whole| whole.get(piece)) {
            return all.push(*token);
        }
        let mut tokens: Vec<u32> = piece.iter().filter_map(|byte| self.bytes[usize::from(*byte)]).collect();
        loop {
            let ranked = tokens.windows(2).enumerate().filter_map(|(at, pair)| {
                let (rank, merged) = self.merges.get(&(pair[0], pair[1]))?;
                Some((*rank, at, *merged))
            });
            let Some((_, at, merged)) = ranked.min() else { break };
            tokens.splice(at..at + 2, [merged]);
        }
        all.extend(tokens);
    }

    /// The bytes of a token; characters may be divided among tokens.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.tokens.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// The text of tokens, without those before and after it.
    pub fn text(&self, tokens: &[u32]) -> String {
        let shown = tokens.iter().filter(|token| Some(**token) != self.begin && !self.end.contains(token));
        let bytes: Vec<u8> = shown.flat_map(|token| self.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
