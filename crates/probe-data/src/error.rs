//! What can be wrong with files, and what was left out because of it.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Why nothing could be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was read or written.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A file that is not Parquet, or not whole.
    #[error("{}: not a whole Parquet file: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        source: parquet::errors::ParquetError,
    },
    /// A file that another version wrote.
    #[error("{}: format version {found}; this build knows {known}", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What we know.
        known: u32,
    },
    /// A file with something else in it than it should have.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A question that cannot be answered.
    #[error("{0}")]
    Asked(String),
}

impl Error {
    /// Names the file that an error of the operating system is about.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Names the file that an error of the Parquet reader or writer is about.
    pub fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        move |source| Self::Parquet { path: path.to_owned(), source }
    }

    /// Something that a file should not have.
    pub fn content(path: &Path, what: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), what: what.into() }
    }

    /// One word for the kind of error, by which files that were left out are counted.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Io { .. } => "unreadable",
            Self::Parquet { .. } => "cut_or_damaged",
            Self::OtherVersion { .. } => "other_version",
            Self::Content { .. } => "wrong_content",
            Self::Asked(_) => "impossible_question",
        }
    }
}

/// A file, or the part of one, that was left out.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ExcludedFile {
    /// Its path within the data set.
    pub file: String,
    /// The kind of reason, in one word.
    pub reason: &'static str,
    /// The reason for people.
    pub detail: String,
    /// Its size: how much was lost at most.
    pub size_bytes: u64,
}

/// What was left out: nothing is without being counted here.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Exclusions {
    /// Files.
    pub files: Vec<ExcludedFile>,
    /// Rows, by reason.
    pub rows: BTreeMap<&'static str, u64>,
}

impl Exclusions {
    /// Counts rows.
    pub fn rows(&mut self, reason: &'static str, count: u64) {
        if count > 0 {
            *self.rows.entry(reason).or_default() += count;
        }
    }

    /// Adds a file and why it cannot be used.
    pub fn file(&mut self, root: &Path, path: &Path, error: &Error) {
        let size_bytes = std::fs::metadata(path).map_or(0, |found| found.len());
        let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let detail = error.to_string();
        self.files.push(ExcludedFile { file, reason: error.reason(), detail, size_bytes });
    }

    /// Takes over what another one counted.
    pub fn merge(&mut self, other: Self) {
        self.files.extend(other.files);
        other.rows.into_iter().for_each(|(reason, count)| self.rows(reason, count));
    }
}
