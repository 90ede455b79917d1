//! Measures of the words in comments and documents.

use crate::tidy::Tree;

/// Words that stand for a subject instead of naming it.
const PRONOUNS: [&str; 9] = [
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "whoever",
    "whomever",
];
/// Pairs of words that do so together.
const PAIRS: [(&str, &[&str]); 2] = [("those", &["who"]), ("who", &["has", "is", "waits"])];

/// Beginnings of a doc comment that name nothing.
const OPENINGS: [&str; 15] = [
    "what", "who", "whose", "whom", "it", "its", "those", "these", "they", "their", "that", "he",
    "his", "she", "her",
];

/// Words, and pronouns among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Words {
    pub all: usize,
    pub pronouns: usize,
}

impl Words {
    /// Pronouns in a hundred thousand words.
    pub fn share(self) -> usize {
        (self.pronouns * 100_000).checked_div(self.all).unwrap_or(0)
    }

    pub fn plus(self, more: Self) -> Self {
        Self { all: self.all + more.all, pronouns: self.pronouns + more.pronouns }
    }
}

/// Words of a text.
pub fn words(text: &str) -> Words {
    let mut found = Words::default();
    let mut before = String::new();
    for word in text.split_whitespace() {
        let bare: String = word
            .chars()
            .filter(|c| c.is_alphabetic() || *c == '\'')
            .collect::<String>()
            .to_lowercase();
        if bare.is_empty() {
            before.clear();
            continue;
        }
        found.all += 1;
        let stem = bare.strip_suffix("'s").unwrap_or(&bare);
        let is_pair =
            PAIRS.iter().any(|(first, seconds)| before == *first && seconds.contains(&stem));
        if PRONOUNS.contains(&stem) || is_pair {
            found.pronouns += 1;
        }
        // A sentence that ends separates the words of a pair.
        before = if word.ends_with(['.', ':', ';', '?']) { String::new() } else { bare };
    }
    found
}

/// Comments of a source file, one text for each run of lines with the same marker, with the number
/// of its first line.
fn comments(source: &str) -> Vec<(usize, &'static str, String)> {
    let mut found: Vec<(usize, &'static str, String)> = Vec::new();
    let mut last = (0, "");
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        let marks = ["///", "//!", "//"];
        let Some(mark) = marks.into_iter().find(|mark| line.starts_with(mark)) else { continue };
        let text = line[mark.len()..].trim();
        match found.last_mut() {
            Some((_, _, comment)) if last == (number - 1, mark) => {
                comment.push(' ');
                comment.push_str(text);
            }
            _ => found.push((number, mark, text.to_owned())),
        }
        last = (number, mark);
    }
    found
}

/// Words in the comments of the sources below a folder.
pub fn in_comments(tree: &Tree, folder: &str) -> Words {
    let sources = tree.below(folder).filter(|(path, _)| path.ends_with(".rs"));
    let each = sources.flat_map(|(_, text)| comments(text)).map(|(_, _, text)| words(&text));
    each.fold(Words::default(), Words::plus)
}

/// Words of the documents below a folder.
pub fn in_documents(tree: &Tree, folder: &str) -> Words {
    let documents = tree.below(folder).filter(|(path, _)| path.ends_with(".md"));
    documents.map(|(_, text)| words(text)).fold(Words::default(), Words::plus)
}

/// Lines with a pronoun in a comment or a document.
pub fn places(tree: &Tree, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.below(folder) {
        let source = path.ends_with(".rs");
        if !source && !path.ends_with(".md") {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            if (!source || line.trim_start().starts_with("//")) && words(line).pronouns > 0 {
                found.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    found
}

/// Doc comments that open with a word that names nothing, and how many doc comments there are.
pub fn openings(tree: &Tree, folder: &str) -> (Vec<String>, usize) {
    let (mut found, mut all) = (Vec::new(), 0);
    for (path, text) in tree.below(folder).filter(|(path, _)| path.ends_with(".rs")) {
        for (number, mark, text) in comments(text) {
            if mark == "//" {
                continue;
            }
            all += 1;
            let mut words = text.split_whitespace().map(str::to_lowercase);
            let first = words.next().unwrap_or_default();
            let bare = first.trim_matches(|c: char| !c.is_alphabetic());
            let same =
                bare == "the" && words.next().is_some_and(|second| second.starts_with("same"));
            let pronoun =
                PRONOUNS.iter().any(|word| bare.strip_suffix("'s").unwrap_or(bare) == *word);
            if same || pronoun || OPENINGS.contains(&bare) {
                let opening: String = text.chars().take(70).collect();
                found.push(format!("{path}:{number}: {mark} {opening}"));
            }
        }
    }
    (found, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pronouns_are_counted_by_their_words() {
        let text =
            "Somebody's lock, nobody, those who wait; who\nis it? Who. Is he? Those with a name.";
        assert_eq!(words(text), Words { all: 16, pronouns: 4 });
        assert_eq!(words("1 2 | --- |").all, 0);
        assert_eq!(Words { all: 2000, pronouns: 1 }.share(), 50);
    }

    #[test]
    fn openings_that_name_nothing_are_found() {
        let source = "//! It is this.\n\n/// What a lock\n/// is.\nfn a() {}\n/// Lock of a key. What it\
                      \n/// it is.\nfn b() {}\n// It is a plain comment.\n/// The same for keys.\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", source)]);
        let (found, all) = openings(&tree, "crates/");
        assert_eq!(all, 4);
        let lines: Vec<&str> = found.iter().map(|line| line.rsplit(": ").next().unwrap()).collect();
        assert_eq!(lines, ["//! It is this.", "/// What a lock is.", "/// The same for keys."]);
        assert_eq!(in_comments(&tree, "crates/").pronouns, 0);
    }
}
