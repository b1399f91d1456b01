//! Command lines in settings.

use std::path::Path;

/// A command line that executes manual steps. It is split into words like a shell would, but run
/// without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    text: String,
    words: Vec<String>,
}

impl AgentCommand {
    /// Splits a text by shell quoting rules, without expansion.
    ///
    /// Returns `None` when a quote is not closed or the program is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let words = shlex::split(text)?;
        let has_program = words.first().is_some_and(|program| !program.is_empty());
        let is_clean = !text.contains('\0');
        (has_program && is_clean).then(|| Self {
            text: text.to_owned(),
            words,
        })
    }

    /// Makes a program path relative to `folder` absolute, so that the command line works in any
    /// folder.
    pub fn from_folder(text: &str, folder: &Path) -> String {
        let unchanged = || text.to_owned();
        let Some(mut command) = Self::parse(text).filter(Self::is_relative) else {
            return unchanged();
        };
        let Some(program) = command.words.first_mut() else {
            return unchanged();
        };
        let Some(full) = folder.join(&*program).to_str().map(str::to_owned) else {
            return unchanged();
        };
        *program = full;
        shlex::try_join(command.words.iter().map(String::as_str)).unwrap_or_else(|_| unchanged())
    }

    /// Whether the program is a path relative to the current folder.
    pub fn is_relative(&self) -> bool {
        self.words
            .first()
            .is_some_and(|program| program.contains('/') && !program.starts_with('/'))
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn argv(&self) -> &[String] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_program_is_named_in_full() {
        for (text, wanted) in [
            ("./agent --print", "'/a b/./agent' --print"),
            ("bin/agent 'x y'", "'/a b/bin/agent' 'x y'"),
            ("/bin/agent 'x y'", "/bin/agent 'x y'"),
            ("agent ./x", "agent ./x"),
            ("'open", "'open"),
        ] {
            assert_eq!(AgentCommand::from_folder(text, Path::new("/a b")), wanted);
        }
    }

    #[test]
    fn a_text_that_names_no_program_is_no_command() {
        for text in [
            "",
            "  ",
            "''",
            "'open",
            "\"open",
            "a\0b",
            "end\\",
            "# only a comment",
        ] {
            assert_eq!(AgentCommand::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn words_are_split_as_a_shell_would_and_nothing_is_expanded() {
        let command =
            AgentCommand::parse("my-agent --print 'two words' \"$HOME *\" a\\ b; ~/x").unwrap();
        assert_eq!(
            command.argv(),
            ["my-agent", "--print", "two words", "$HOME *", "a b;", "~/x"]
        );
    }
}
