//! Words of definitions, and words with arguments in them.

use super::definition::Parameter;
use crate::Blob;

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub quoted: bool,
}

impl Word {
    /// Whether this is a word of the grammar.
    pub fn is(&self, word: &str) -> bool {
        !self.quoted && self.text == word
    }

    /// The word for an error.
    pub fn shown(&self) -> String {
        self.text.chars().take(64).collect()
    }

    /// The word as it is written in a definition.
    pub fn written(&self) -> String {
        if !self.quoted {
            return self.text.clone();
        }
        format!("\"{}\"", self.text.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// Words of a line: none if it is empty or a comment.
pub(super) fn split(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    if rest.starts_with('#') {
        return Ok(words);
    }
    if rest.contains(|c: char| c.is_control() && c != '\t') {
        return Err("control characters are not allowed".to_owned());
    }
    while !rest.is_empty() {
        let Some(inside) = rest.strip_prefix('"') else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(Word { text: rest[..end].to_owned(), quoted: false });
            rest = rest[end..].trim_start();
            continue;
        };
        let (mut text, mut end, mut escaped) = (String::new(), None, false);
        for (at, c) in inside.char_indices() {
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    end = Some(at);
                    break;
                }
                c => {
                    text.push(c);
                    escaped = false;
                }
            }
        }
        let end = end.ok_or("a quotation mark is missing")?;
        rest = &inside[end + 1..];
        if rest.starts_with(|c: char| !c.is_whitespace()) {
            return Err("a space follows a quotation mark".to_owned());
        }
        rest = rest.trim_start();
        words.push(Word { text, quoted: true });
    }
    Ok(words)
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Argument(usize),
}

/// A word in which arguments stand.
#[derive(Clone, Debug)]
pub(super) struct Template(Vec<Piece>);

impl Template {
    /// A word as it is.
    pub fn plain(text: &str) -> Self {
        Self(vec![Piece::Text(text.to_owned())])
    }

    /// A word with `$name` for arguments, and `$$` for a dollar sign.
    pub fn parse(word: &str, parameters: &[Parameter]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = word;
        while let Some(at) = rest.find('$') {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix('$') {
                pieces.push(Piece::Text("$".to_owned()));
                rest = behind;
                continue;
            }
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let end = rest.find(|c: char| !fits(c)).unwrap_or(rest.len());
            let place = parameters.iter().position(|parameter| parameter.name == rest[..end]);
            let place = place.ok_or_else(|| format!("there is no parameter '{}'", &rest[..end]))?;
            pieces.push(Piece::Argument(place));
            rest = &rest[end..];
        }
        if !rest.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Length of the word with these arguments.
    pub fn bytes(&self, arguments: &[Blob]) -> usize {
        let len = |piece: &Piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Argument(place) => arguments.get(*place).map_or(0, |argument| argument.len()),
        };
        self.0.iter().map(len).sum()
    }

    /// The word, with these arguments.
    pub fn with(&self, arguments: &[Blob]) -> Blob {
        let argument = |place: usize| arguments.get(place).cloned().unwrap_or_default();
        match &self.0[..] {
            [Piece::Text(text)] => Blob::from(text.as_str()),
            [Piece::Argument(place)] => argument(*place),
            pieces => {
                let mut word = Vec::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => word.extend_from_slice(text.as_bytes()),
                        Piece::Argument(place) => word.extend_from_slice(&argument(*place)),
                    }
                }
                Blob::from(word)
            }
        }
    }
}
