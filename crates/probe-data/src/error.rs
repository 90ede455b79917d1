//! Errors of files, and the data that was excluded because of them.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Reason for a failed operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path that was read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file that is not Parquet, or incomplete.
    #[error("{}: not a complete Parquet file: {source}", path.display())]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// Error of the reader.
        source: parquet::errors::ParquetError,
    },
    /// A file of another format version.
    #[error("{}: format version {found}; this build knows {known}", path.display())]
    OtherVersion {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: u32,
        /// Supported version.
        known: u32,
    },
    /// A file with unexpected contents.
    #[error("{}: {what}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// An invalid request.
    #[error("{0}")]
    Asked(String),
}

impl Error {
    /// Adds the path to an error of the operating system.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Adds the path to an error of the Parquet reader or writer.
    pub fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        move |source| Self::Parquet { path: path.to_owned(), source }
    }

    /// Creates an error about unexpected contents.
    pub fn content(path: &Path, what: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), what: what.into() }
    }

    /// Kind of error in one word, by which excluded files are counted.
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

/// An excluded file, or an excluded part of one.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ExcludedFile {
    /// Path within the data set.
    pub file: String,
    /// Reason in one word.
    pub reason: &'static str,
    /// Reason as text.
    pub detail: String,
    /// Size of the file, which bounds the loss.
    pub size_bytes: u64,
}

/// Excluded data: nothing is excluded without being counted here.
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

    /// Adds other exclusions.
    pub fn merge(&mut self, other: Self) {
        self.files.extend(other.files);
        other.rows.into_iter().for_each(|(reason, count)| self.rows(reason, count));
    }
}
