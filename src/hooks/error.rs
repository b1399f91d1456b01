//! Why hooks cannot be changed.

use std::io;
use std::path::PathBuf;

use crate::checkpoint::error::CheckpointError;
use crate::error::Error;
use crate::run::error::RunError;

#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    #[error(transparent)]
    Repository(#[from] CheckpointError),
    /// The write failed; earlier writes were undone.
    #[error("cannot write `{}`: {source}", .file.display())]
    Unwritable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another process changed the hook at the same time.
    #[error("`{}` was changed by another process meanwhile", .0.display())]
    Changed(PathBuf),
    /// A write failed, and undoing the earlier ones failed too.
    #[error("{cause}; and `{}` could not be restored: {source}", .file.display())]
    HalfDone {
        cause: Box<HooksError>,
        /// The file that was not restored.
        file: PathBuf,
        source: io::Error,
    },
}

impl HooksError {
    pub(super) fn unwritable(file: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_path_buf();
        move |source| Self::Unwritable { file, source }
    }

    fn hint(&self) -> String {
        match self {
            Self::Repository(_) => String::new(),
            Self::Unwritable { .. } => {
                "nothing was changed: make the folder writable for you, or let its owner do it"
                    .to_owned()
            }
            Self::Changed(_) => "nothing was changed: try again".to_owned(),
            Self::HalfDone { .. } => {
                "`piton hooks status` shows the state; try again when it is writable".to_owned()
            }
        }
    }
}

impl From<HooksError> for Error {
    fn from(err: HooksError) -> Self {
        match err {
            HooksError::Repository(err) => RunError::from(err).into(),
            err => Self::Hooks {
                message: err.to_string(),
                hint: err.hint(),
            },
        }
    }
}
