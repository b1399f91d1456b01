//! The stable codes of all problems.
//!
//! One table: the name, the level, and a one-line meaning. Every code has a section in
//! `docs/reference/codes.md`: findings with a failing and a corrected example, the others with a
//! cause and a fix. A test keeps table and page equal. Code compares variants, never names.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a code is reported, and how severe its findings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLevel {
    /// Always an error.
    Error,
    /// Always a warning.
    Warning,
    /// A warning in lenient, an error in strict validation.
    ErrorWhenStrict,
    /// Not a finding about a file: a command, run or call reports it.
    RunTime,
}

macro_rules! codes {
    ($($variant:ident $name:literal $level:ident $summary:literal)*) => {
        /// A stable code, e.g. `MISSING_REQUIRED_FIELD`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $summary] $variant,)*
            /// A code of another version of piton, read from its journal.
            Other(OtherCode),
        }

        impl Code {
            /// Every code of this version, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code with a name in a journal.
            fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Other(OtherCode::keep(other)),
                }
            }

            /// The printed code.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Other(OtherCode(name)) => name }
            }

            pub fn level(self) -> CodeLevel {
                match self { $(Self::$variant => CodeLevel::$level,)* Self::Other(_) => CodeLevel::RunTime }
            }

            /// A one-line explanation.
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)*
                    Self::Other(_) => "a code of another version of piton",
                }
            }
        }
    };
}

codes! {
    // Any file.
    UnreadableFile "UNREADABLE_FILE" Error "the file cannot be read"
    NotARegularFile "NOT_A_REGULAR_FILE" Error "an item must be a regular file, not a folder, pipe or device"
    FileTooLarge "FILE_TOO_LARGE" Error "the file is larger than an item may be"
    NotUtf8 "NOT_UTF8" Error "the file is not valid UTF-8"
    EmptyFile "EMPTY_FILE" Error "the file has no content"
    PathEscape "PATH_ESCAPE" Error "a path leaves the folder it must stay in"
    InvalidPath "INVALID_PATH" Error "a path contains characters that are not allowed"
    // Documents.
    YamlSyntax "YAML_SYNTAX" Error "the YAML cannot be parsed"
    YamlTag "YAML_TAG" Error "YAML tags are not accepted"
    YamlMergeKey "YAML_MERGE_KEY" Error "YAML merge keys are not accepted"
    YamlManyDocuments "YAML_MANY_DOCUMENTS" Error "the file contains more than one YAML document"
    RepetitionLimit "REPETITION_LIMIT" Error "aliases repeat more content than is accepted"
    NestingLimit "NESTING_LIMIT" Error "the content is nested too deeply"
    DuplicateKey "DUPLICATE_KEY" Error "a key is given twice"
    InvalidNumber "INVALID_NUMBER" Error "a number is out of range or not a number"
    JsonSyntax "JSON_SYNTAX" Error "the JSON cannot be parsed"
    XmlSyntax "XML_SYNTAX" Error "the XML cannot be parsed"
    XmlDtd "XML_DTD" Error "document type declarations and entities are not accepted"
    UnescapedMarkup "UNESCAPED_MARKUP" ErrorWhenStrict "an unescaped `<` or `&` in text"
    // Any item.
    MissingRequiredField "MISSING_REQUIRED_FIELD" Error "a required field is missing"
    MissingRecommendedField "MISSING_RECOMMENDED_FIELD" Warning "a field that readers and search rely on is missing"
    InvalidType "INVALID_TYPE" Error "a field has the wrong type"
    InvalidEnumValue "INVALID_ENUM_VALUE" Error "a value is not in the list of allowed values"
    UnknownEnumValue "UNKNOWN_ENUM_VALUE" ErrorWhenStrict "a value outside the documented list that files in the wild use"
    InvalidSemver "INVALID_SEMVER" Error "a version is not MAJOR.MINOR.PATCH"
    UnquotedVersion "UNQUOTED_VERSION" ErrorWhenStrict "a version is written as a number"
    NamingConvention "NAMING_CONVENTION" Warning "a name does not follow the naming convention"
    InvalidId "INVALID_ID" Error "an id contains characters that are not allowed"
    DuplicateId "DUPLICATE_ID" Error "two items in one layer have the same id"
    DuplicateName "DUPLICATE_NAME" Error "two steps, inputs or parameters have the same name"
    UnknownField "UNKNOWN_FIELD" ErrorWhenStrict "a field is unknown"
    CategoryMismatch "CATEGORY_MISMATCH" Warning "the category differs from the folder of the item"
    NameMismatch "NAME_MISMATCH" Warning "the file is not named after the item"
    IgnoredFile "IGNORED_FILE" Warning "a file beside items has an ending that is not read"
    Unsigned "UNSIGNED" Warning "the item has no integrity stamp"
    HashMismatch "HASH_MISMATCH" Error "the content differs from what was stamped"
    InvalidStamp "INVALID_STAMP" Error "the integrity stamp is malformed, misplaced or given twice"
    ForeignStamp "FOREIGN_STAMP" Warning "the stamp is of another kind and cannot be checked"
    UncoveredScript "UNCOVERED_SCRIPT" Warning "the stamp of a manifest does not cover the script beside it"
    // Directives.
    NoDirective "NO_DIRECTIVE" Error "the file contains no directive"
    ManyDirectives "MANY_DIRECTIVES" Error "the file contains more than one directive"
    UnfencedDirective "UNFENCED_DIRECTIVE" ErrorWhenStrict "the directive is not in a fenced xml block"
    TextAfterDirective "TEXT_AFTER_DIRECTIVE" Error "there is text between the directive and the end of its fence"
    UnknownElement "UNKNOWN_ELEMENT" Warning "an element is unknown; it is kept and has no effect"
    UnknownPermission "UNKNOWN_PERMISSION" ErrorWhenStrict "a permission element is unknown and grants nothing"
    GrantWithoutEffect "GRANT_WITHOUT_EFFECT" Warning "a permission grants nothing"
    MissingGrant "MISSING_GRANT" Error "a step needs a permission that the directive does not grant"
    UnusedGrant "UNUSED_GRANT" Warning "no step uses a grant"
    UnknownReference "UNKNOWN_REFERENCE" Error "a placeholder names an input or step that does not exist"
    InvalidTemplate "INVALID_TEMPLATE" Error "a placeholder is malformed"
    InvalidExpression "INVALID_EXPRESSION" Error "an expression cannot be parsed"
    AmbiguousStep "AMBIGUOUS_STEP" Error "a step does more than one thing, or nothing"
    UnknownItem "UNKNOWN_ITEM" ErrorWhenStrict "a referenced item does not exist"
    DirectiveCycle "DIRECTIVE_CYCLE" Error "a directive calls itself, and no condition ends it"
    InvalidParameter "INVALID_PARAMETER" Error "a parameter does not match the called tool"
    // Tools.
    MissingMetadata "MISSING_METADATA" Error "a script has no metadata"
    ConflictingField "CONFLICTING_FIELD" Warning "a field is given in two places with different values"
    CodeNotExecuted "CODE_NOT_EXECUTED" Warning "project code is never executed to read metadata"
    PrimitiveShadowed "PRIMITIVE_SHADOWED" Warning "a project file describes a primitive and is ignored"
    UnknownExecutor "UNKNOWN_EXECUTOR" Error "the executor does not exist"
    UnexpectedExecutor "UNEXPECTED_EXECUTOR" Error "the executor is of the wrong kind, or must be absent"
    ExecutorCycle "EXECUTOR_CYCLE" Error "the executor chain loops"
    ExecutorDepth "EXECUTOR_DEPTH" Error "the executor chain is too long"
    MissingEntrypoint "MISSING_ENTRYPOINT" Error "the entrypoint does not exist"
    SyntaxError "SYNTAX_ERROR" Error "a script cannot be parsed by its interpreter"
    InvalidUrl "INVALID_URL" Error "a URL cannot be used"
    UnknownTemplateVariable "UNKNOWN_TEMPLATE_VARIABLE" Error "a template variable has no parameter"
    InvalidRequirement "INVALID_REQUIREMENT" Error "a dependency is not a valid requirement"
    InvalidSchema "INVALID_SCHEMA" Error "a JSON Schema is not valid"
    RemoteReference "REMOTE_REFERENCE" Error "a JSON Schema refers to something outside itself"
    InvalidDefault "INVALID_DEFAULT" Error "a default does not fit its own schema"
    UnknownSchema "UNKNOWN_SCHEMA" Warning "the named schema does not exist"
    InvalidPattern "INVALID_PATTERN" Error "a pattern cannot be compiled"
    DeclaredPermissions "DECLARED_PERMISSIONS" Warning "a tool declares permissions; directives grant, tools only require"
    // Tool schema 1.0 and 2.0.
    InvalidFunctionSyntax "INVALID_FUNCTION_SYNTAX" Error "a JavaScript function cannot be parsed"
    ForbiddenCall "FORBIDDEN_CALL" Error "a JavaScript function uses something outside its sandbox"
    MissingScenario "MISSING_SCENARIO" ErrorWhenStrict "a required example scenario is missing"
    IgnoredSection "IGNORED_SECTION" Warning "a section is ignored by the schema version"
    UncheckableDetection "UNCHECKABLE_DETECTION" Warning "a payload detection cannot be evaluated"
    // Knowledge.
    MissingFrontMatter "MISSING_FRONT_MATTER" Error "the file has no YAML front matter"
    // Settings.
    UnknownSetting "UNKNOWN_SETTING" Warning "a setting is unknown"
    CacheNotAllowed "CACHE_NOT_ALLOWED" Warning "a tool declares a cache in a folder that the user has not allowed"
    SettingIgnored "SETTING_IGNORED" Warning "a project may not loosen this setting"
    // Commands and calls.
    Usage "USAGE" RunTime "the command line or call is contradictory"
    InvalidArgument "INVALID_ARGUMENT" RunTime "an argument of an MCP call has the wrong type or value"
    MissingArgument "MISSING_ARGUMENT" RunTime "a required argument of an MCP call is missing"
    UnknownTopic "UNKNOWN_TOPIC" RunTime "there is no help page with that name"
    CannotRead "CANNOT_READ" RunTime "a given file or folder cannot be read"
    CannotWrite "CANNOT_WRITE" RunTime "a file cannot be written"
    InvalidFile "INVALID_FILE" RunTime "a given file is invalid"
    FilesInTheWay "FILES_IN_THE_WAY" RunTime "files exist where new ones would be written"
    NotConfirmed "NOT_CONFIRMED" RunTime "something that cannot be undone needs a confirmation"
    Interrupted "INTERRUPTED" RunTime "the user or the client stopped it"
    TimedOut "TIMED_OUT" RunTime "the time limit was exceeded"
    Internal "INTERNAL" RunTime "piton failed unexpectedly"
    // Projects and settings.
    NoWorkingFolder "NO_WORKING_FOLDER" RunTime "the current folder no longer exists"
    NotAFolder "NOT_A_FOLDER" RunTime "a path that should be a folder is not one"
    NotAProject "NOT_A_PROJECT" RunTime "the folder cannot be a project"
    InvalidVariable "INVALID_VARIABLE" RunTime "an environment variable has a value that piton cannot use"
    InvalidSettings "INVALID_SETTINGS" RunTime "a setting has a value that cannot be used"
    NoHome "NO_HOME" RunTime "there is no home folder"
    NoRegistry "NO_REGISTRY" RunTime "piton has no registry of items"
    // Repositories and checkpoints.
    NoRepository "NO_REPOSITORY" RunTime "there is no git repository"
    BareRepository "BARE_REPOSITORY" RunTime "the repository has no work tree"
    WorkTreeTooBroad "WORK_TREE_TOO_BROAD" RunTime "the work tree is the home folder or the whole file system"
    ForeignOwner "FOREIGN_OWNER" RunTime "the repository belongs to another user"
    OperationInProgress "OPERATION_IN_PROGRESS" RunTime "a merge, rebase or similar git operation is in progress"
    UnmergedIndex "UNMERGED_INDEX" RunTime "the index has merge conflicts"
    UnsupportedRepository "UNSUPPORTED_REPOSITORY" RunTime "the repository uses a feature that piton does not support"
    NoIdentity "NO_IDENTITY" RunTime "git does not know who commits"
    InvalidDate "INVALID_DATE" RunTime "a date for git cannot be read"
    IndexLocked "INDEX_LOCKED" RunTime "another git process holds the index"
    RefLocked "REF_LOCKED" RunTime "another git process holds a ref"
    FileChanging "FILE_CHANGING" RunTime "a file changes while piton reads it"
    OverBudget "OVER_BUDGET" RunTime "a snapshot would be larger than the limit"
    DiskFull "DISK_FULL" RunTime "the disk is full"
    DirtyOverlap "DIRTY_OVERLAP" RunTime "the step overlaps your uncommitted changes"
    EditedSince "EDITED_SINCE" RunTime "files were edited after the step wrote them"
    SecretFound "SECRET_FOUND" RunTime "a file contains a possible secret"
    HeadMoved "HEAD_MOVED" RunTime "the branch got other commits meanwhile"
    BranchSwitched "BRANCH_SWITCHED" RunTime "another branch was checked out meanwhile"
    HookFailed "HOOK_FAILED" RunTime "a git hook of the repository refused the commit"
    SigningFailed "SIGNING_FAILED" RunTime "git could not sign the commit"
    FilterFailed "FILTER_FAILED" RunTime "a filter of git failed"
    FilterChanged "FILTER_CHANGED" RunTime "a filter was changed during the run"
    SigningChanged "SIGNING_CHANGED" RunTime "the signing settings of git were changed during the run"
    ChangedSince "CHANGED_SINCE" RunTime "files changed after what is being undone or redone"
    UnwritableFile "UNWRITABLE_FILE" RunTime "a file cannot be changed"
    RepositoryLeft "REPOSITORY_LEFT" RunTime "a nested repository was left alone"
    InvalidMessage "INVALID_MESSAGE" RunTime "a commit message cannot be used"
    InvalidIndex "INVALID_INDEX" RunTime "the index of git cannot be read"
    IgnoredByGit "IGNORED_BY_GIT" RunTime "git ignores a file that would be changed"
    OutsideCheckpoints "OUTSIDE_CHECKPOINTS" RunTime "no snapshot can cover a file that would be changed"
    GitProgramFailed "GIT_PROGRAM_FAILED" RunTime "the `git` program failed"
    GitFailed "GIT_FAILED" RunTime "the repository could not be read or written"
    IoFailed "IO_FAILED" RunTime "the file system failed"
    Missing "MISSING" RunTime "an object is not in the repository"
    UnknownRemote "UNKNOWN_REMOTE" RunTime "there is no remote with that name"
    RemoteFailed "REMOTE_FAILED" RunTime "the remote could not be reached"
    LogRefused "LOG_REFUSED" RunTime "the remote rejected the log of a run"
    CheckpointFailed "CHECKPOINT_FAILED" RunTime "the changes of a call were not committed"
    NotAttributed "NOT_ATTRIBUTED" RunTime "changes cannot be attributed to the step for certain"
    NoSuchPath "NO_SUCH_PATH" RunTime "there is no such file or folder"
    OutsidePath "OUTSIDE_PATH" RunTime "a path is outside of the work tree"
    // Runs and steps.
    NotFound "NOT_FOUND" RunTime "the given name does not exist"
    Ambiguous "AMBIGUOUS" RunTime "a prefix matches more than one run, step or commit"
    NoCommit "NO_COMMIT" RunTime "the step has no commit"
    NoSnapshot "NO_SNAPSHOT" RunTime "the step has no snapshot"
    Locked "LOCKED" RunTime "another run works in this worktree"
    LockFailed "LOCK_FAILED" RunTime "the lock of the worktree cannot be taken"
    RunWaits "RUN_WAITS" RunTime "a run of a directive is unfinished in this worktree"
    WaitsElsewhere "WAITS_ELSEWHERE" RunTime "the run waits in another work tree"
    NotResumable "NOT_RESUMABLE" RunTime "the run cannot be resumed"
    NothingWaits "NOTHING_WAITS" RunTime "no run waits here"
    WrongAnswer "WRONG_ANSWER" RunTime "the waiting step needs another kind of answer"
    ChangedSinceShown "CHANGED_SINCE_SHOWN" RunTime "the files changed after they were shown for approval"
    InvalidInputs "INVALID_INPUTS" RunTime "the inputs do not match the directive"
    DirectiveNotFound "DIRECTIVE_NOT_FOUND" RunTime "there is no directive with that name"
    RequirementNotFound "REQUIREMENT_NOT_FOUND" RunTime "a directive requires another one that cannot be used"
    TooDeep "TOO_DEEP" RunTime "directives are nested too deeply"
    ItemChanged "ITEM_CHANGED" RunTime "an item changed since the run began"
    PinDamaged "PIN_DAMAGED" RunTime "the saved items of a run were changed"
    WriteFailed "WRITE_FAILED" RunTime "piton could not write its own files"
    SignalsFailed "SIGNALS_FAILED" RunTime "piton cannot listen for signals"
    RecoveryFailed "RECOVERY_FAILED" RunTime "an interrupted run could not be recovered"
    Unfinished "UNFINISHED" RunTime "the work was not completed"
    Cancelled "CANCELLED" RunTime "the run was cancelled"
    CommandFailed "COMMAND_FAILED" RunTime "the command of the step failed"
    StepFailed "STEP_FAILED" RunTime "a person or an agent reported that a manual step failed"
    Rejected "REJECTED" RunTime "a person rejected the step"
    SentBack "SENT_BACK" RunTime "the changes were sent back to be done again"
    AgentFailed "AGENT_FAILED" RunTime "the program of the agent failed"
    LimitReached "LIMIT_REACHED" RunTime "a limit of the directive was reached"
    PermissionDenied "PERMISSION_DENIED" RunTime "the directive does not permit the call"
    WriteDenied "WRITE_DENIED" RunTime "a step wrote files without permission"
    UndeclaredMutation "UNDECLARED_MUTATION" RunTime "a tool changed files without declaring it"
    InvalidValue "INVALID_VALUE" RunTime "a value of a directive cannot be computed"
    UndefinedName "UNDEFINED_NAME" RunTime "a placeholder has no value"
    EnvironmentMissing "ENVIRONMENT_MISSING" RunTime "an environment variable is not set"
    // Undo, finish and restart.
    NothingToUndo "NOTHING_TO_UNDO" RunTime "there is no step to undo"
    NothingToRedo "NOTHING_TO_REDO" RunTime "there is no undo to redo"
    NotUndoable "NOT_UNDOABLE" RunTime "the step cannot be undone"
    NotRedoable "NOT_REDOABLE" RunTime "the undo cannot be redone"
    OtherBranch "OTHER_BRANCH" RunTime "the step belongs to another branch"
    Published "PUBLISHED" RunTime "the commits are already on a remote"
    NotNewest "NOT_NEWEST" RunTime "newer commits follow"
    OwnBranch "OWN_BRANCH" RunTime "the branch of the run is checked out"
    DetachedHead "DETACHED_HEAD" RunTime "no branch is checked out"
    UnbornBranch "UNBORN_BRANCH" RunTime "the branch has no commit yet"
    UnrelatedHistory "UNRELATED_HISTORY" RunTime "the two branches have no commit in common"
    MergeConflict "MERGE_CONFLICT" RunTime "the commits of the run conflict with the branch"
    RunNotEnded "RUN_NOT_ENDED" RunTime "the run has not ended"
    AlreadyFinished "ALREADY_FINISHED" RunTime "the run was closed before"
    NotEnded "NOT_ENDED" RunTime "the run has not ended and cannot be restarted"
    NoSuchStep "NO_SUCH_STEP" RunTime "the run has no such step"
    StepGone "STEP_GONE" RunTime "the step is no longer in the directive"
    NoCheckpoints "NO_CHECKPOINTS" RunTime "the run took no checkpoints"
    NothingToSkip "NOTHING_TO_SKIP" RunTime "there is no failed step to skip"
    ReasonNeeded "REASON_NEEDED" RunTime "a reason is required"
    Indeterminate "INDETERMINATE" RunTime "the outcome of a call is not known"
    NothingToAccept "NOTHING_TO_ACCEPT" RunTime "there is nothing to accept"
    NotAcceptable "NOT_ACCEPTABLE" RunTime "the difference cannot be accepted"
    NotCommitted "NOT_COMMITTED" RunTime "the item is not committed"
    InsideProject "INSIDE_PROJECT" RunTime "the folder for worktrees is inside the project"
    UncommittedWork "UNCOMMITTED_WORK" RunTime "the worktree has uncommitted changes"
    WorktreeKept "WORKTREE_KEPT" RunTime "the worktree could not be removed"
    // Tools.
    UnsupportedTool "UNSUPPORTED_TOOL" RunTime "the item cannot be called as a tool"
    NotRunnable "NOT_RUNNABLE" RunTime "a runtime, a primitive or a directive without steps cannot be run by itself"
    UnknownCommand "UNKNOWN_COMMAND" RunTime "the tool has no such command"
    InvalidConfig "INVALID_CONFIG" RunTime "the configuration of the tool cannot be used"
    SignatureMismatch "SIGNATURE_MISMATCH" RunTime "the tool was changed after it was stamped"
    RequirementsMissing "REQUIREMENTS_MISSING" RunTime "commands or variables that the tool needs are missing"
    SandboxUnavailable "SANDBOX_UNAVAILABLE" RunTime "the isolation that the tool asks for is not available"
    NoCommand "NO_COMMAND" RunTime "no command was given"
    ProgramNotFound "PROGRAM_NOT_FOUND" RunTime "the program does not exist"
    ProgramNotExecutable "PROGRAM_NOT_EXECUTABLE" RunTime "the file is not a program"
    ProgramFailed "PROGRAM_FAILED" RunTime "the program could not be started"
    SupervisorFailed "SUPERVISOR_FAILED" RunTime "the process that supervises tools could not be started, or was killed"
    ScriptChanged "SCRIPT_CHANGED" RunTime "the script changed while it was being started"
    ScriptUnreadable "SCRIPT_UNREADABLE" RunTime "the script cannot be read"
    NoPrivateHome "NO_PRIVATE_HOME" RunTime "no private home folder could be made for the tool"
    InvalidDependency "INVALID_DEPENDENCY" RunTime "a dependency is not the name of a package"
    DependenciesFailed "DEPENDENCIES_FAILED" RunTime "the packages of the tool could not be installed"
    CacheFailed "CACHE_FAILED" RunTime "the cache folder cannot be used"
    ToolFailed "TOOL_FAILED" RunTime "the tool failed"
    ToolRaised "TOOL_RAISED" RunTime "the tool raised an exception"
    NoJson "NO_JSON" RunTime "the result of the tool cannot be written as JSON"
    NoResult "NO_RESULT" RunTime "the tool ended without a result"
    ResultTooLarge "RESULT_TOO_LARGE" RunTime "the result of the tool is too large"
    OutputContract "OUTPUT_CONTRACT" RunTime "the result does not match the declared outputs"
    ParserFailed "PARSER_FAILED" RunTime "the output of the tool could not be parsed"
    CallLimit "CALL_LIMIT" RunTime "a meta tool made too many calls"
    NotAggregated "NOT_AGGREGATED" RunTime "a meta tool called a tool that it does not list"
    WorkerFailed "WORKER_FAILED" RunTime "the worker process did not understand its job"
    TransformFailed "TRANSFORM_FAILED" RunTime "the result could not be transformed"
    ScriptTimeout "SCRIPT_TIMEOUT" RunTime "a JavaScript function took too long"
    ScriptMemory "SCRIPT_MEMORY" RunTime "a JavaScript function needs too much memory"
    ScriptThrew "SCRIPT_THREW" RunTime "a JavaScript function threw an error"
    ScriptReturn "SCRIPT_RETURN" RunTime "a JavaScript function returned something that it may not return"
    // HTTP, MCP and containers.
    NetworkFailed "NETWORK_FAILED" RunTime "the server could not be reached"
    NoAnswer "NO_ANSWER" RunTime "the call was sent and got no answer"
    AddressRefused "ADDRESS_REFUSED" RunTime "the address is not allowed"
    RedirectRefused "REDIRECT_REFUSED" RunTime "a redirect was not followed"
    HttpStatus "HTTP_STATUS" RunTime "the server answered with an error"
    BadResponse "BAD_RESPONSE" RunTime "the answer cannot be used"
    ContainerEngine "CONTAINER_ENGINE" RunTime "no container engine responds"
    ImageUnavailable "IMAGE_UNAVAILABLE" RunTime "the image does not exist locally and cannot be pulled"
    BuildFailed "BUILD_FAILED" RunTime "the image could not be built"
    ContainerFailed "CONTAINER_FAILED" RunTime "the container could not be created or started"
    OutOfMemory "OUT_OF_MEMORY" RunTime "the container exceeded its memory limit"
    McpServerFailed "MCP_SERVER_FAILED" RunTime "the MCP server of a tool could not be started, or ended"
    McpProtocol "MCP_PROTOCOL" RunTime "the MCP server of a tool violated the protocol"
    McpNoTool "MCP_NO_TOOL" RunTime "the MCP server has no such tool"
    McpChanged "MCP_CHANGED" RunTime "the MCP server describes a tool differently than before"
    McpToolError "MCP_TOOL_ERROR" RunTime "the tool of an MCP server reported an error"
    NotAnMcpTool "NOT_AN_MCP_TOOL" RunTime "the tool does not belong to an MCP server"
    DefinitionsUnusable "DEFINITIONS_UNUSABLE" RunTime "the file with accepted MCP tools cannot be used"
    // Items.
    NotAnItem "NOT_AN_ITEM" RunTime "the file is neither a directive, a tool nor knowledge"
    InvalidItem "INVALID_ITEM" RunTime "the item is invalid and cannot be used"
    ItemExists "ITEM_EXISTS" RunTime "an item or a file already exists"
    InTheWay "IN_THE_WAY" RunTime "something else is in the place of the item"
    NotOfTheProject "NOT_OF_THE_PROJECT" RunTime "the item does not belong to the project"
    NotStampable "NOT_STAMPABLE" RunTime "the item cannot be signed"
    UnknownType "UNKNOWN_TYPE" RunTime "there is no such type of item"
    UnknownVerb "UNKNOWN_VERB" RunTime "there is no such action on items"
    MissingParameter "MISSING_PARAMETER" RunTime "a parameter of an item step is missing"
    UnknownParameter "UNKNOWN_PARAMETER" RunTime "an item step has a parameter that the action does not take"
    NotALegacyScript "NOT_A_LEGACY_SCRIPT" RunTime "the file is not a script that can be migrated"
    NotMigratable "NOT_MIGRATABLE" RunTime "the script cannot be migrated without changing it"
    // Signatures and keys.
    SignatureRequired "SIGNATURE_REQUIRED" RunTime "the policy requires a signature that is missing or not trusted"
    SshKeygenMissing "SSH_KEYGEN_MISSING" RunTime "`ssh-keygen` is missing or too old"
    SshKeygenFailed "SSH_KEYGEN_FAILED" RunTime "`ssh-keygen` failed"
    InvalidKey "INVALID_KEY" RunTime "the file or text is not a usable key"
    KeyNotUsable "KEY_NOT_USABLE" RunTime "the key exists and cannot be used"
    KeyRevoked "KEY_REVOKED" RunTime "the key was revoked"
    PrivateKey "PRIVATE_KEY" RunTime "a private key was given where a public one belongs"
    InvalidName "INVALID_NAME" RunTime "the name of a signer cannot be used"
    TrustInRepository "TRUST_IN_REPOSITORY" RunTime "the file of trusted keys is inside the repository"
    // Journals and logs.
    RunNotFound "RUN_NOT_FOUND" RunTime "there is no run with that name"
    RunExists "RUN_EXISTS" RunTime "a run with that name already exists"
    JournalDamaged "JOURNAL_DAMAGED" RunTime "the journal has a line that cannot be read"
    JournalNewer "JOURNAL_NEWER" RunTime "the journal was written by a newer piton"
    JournalBroken "JOURNAL_BROKEN" RunTime "the hash chain of the journal is broken"
    JournalForeignLine "JOURNAL_FOREIGN_LINE" RunTime "a process other than piton has written a line of the journal"
    JournalShortened "JOURNAL_SHORTENED" RunTime "lines at the end of the journal are missing"
    JournalUnauthenticated "JOURNAL_UNAUTHENTICATED" RunTime "no line of the journal is authenticated"
    JournalKeyMissing "JOURNAL_KEY_MISSING" RunTime "the key that authenticates the journal is not here"
    JournalFailed "JOURNAL_FAILED" RunTime "the journal cannot be read or written"
    JournalInconsistent "JOURNAL_INCONSISTENT" RunTime "the journal contradicts itself"
    LogBroken "LOG_BROKEN" RunTime "the log of a run in git is not valid"
    LogTooLarge "LOG_TOO_LARGE" RunTime "the log of a run in git holds more than piton reads"
    LogMismatch "LOG_MISMATCH" RunTime "the log in git differs from the journal"
    LogMissing "LOG_MISSING" RunTime "a commit names a run whose log is not here"
    CommitMismatch "COMMIT_MISMATCH" RunTime "a commit differs from the one in the journal"
    DeltaMismatch "DELTA_MISMATCH" RunTime "the recorded changes do not match the snapshots"
    ObjectDamaged "OBJECT_DAMAGED" RunTime "an object of the repository cannot be read"
    SnapshotMissing "SNAPSHOT_MISSING" RunTime "a snapshot in the journal is missing"
    TrailerMismatch "TRAILER_MISMATCH" RunTime "the trailers of a commit do not match the journal"
    Rewritten "REWRITTEN" RunTime "a commit was rewritten"
    NotRecorded "NOT_RECORDED" RunTime "a commit claims a step that is not on record"
    Replaced "REPLACED" RunTime "git shows another object in place of a recorded one"
    NoSuchLine "NO_SUCH_LINE" RunTime "the file has no such line"
    NotPushable "NOT_PUSHABLE" RunTime "the log of the run stays here"
    // Hooks.
    EmptyMessage "EMPTY_MESSAGE" RunTime "the commit message has only trailers"
    ForgedTrailer "FORGED_TRAILER" RunTime "the commit message claims a step of piton"
    NotUnderstood "NOT_UNDERSTOOD" RunTime "the hook cannot parse the input from git"
    CheckTimedOut "CHECK_TIMED_OUT" RunTime "a push was not checked within the time limit"
    CheckFailed "CHECK_FAILED" RunTime "the check of a push ended without an answer"
    LocalRef "LOCAL_REF" RunTime "the push names refs that stay in this repository"
    // MCP server.
    ProjectNotServed "PROJECT_NOT_SERVED" RunTime "the server does not serve this project"
    PersonNeeded "PERSON_NEEDED" RunTime "only a person may answer this"
    ConsentNeeded "CONSENT_NEEDED" RunTime "an agent wrote the item, and no person has allowed it to run"
    AuthoringRefused "AUTHORING_REFUSED" RunTime "agents may not write this through the server"
    PolicyLoosened "POLICY_LOOSENED" RunTime "an agent asked for less safety than the settings require"
    AnswerRefused "ANSWER_REFUSED" RunTime "the answer of the person was not accepted"
    TooLarge "TOO_LARGE" RunTime "the resource is too large to be sent"
    McpNotLoopback "MCP_NOT_LOOPBACK" RunTime "the server would listen beyond this machine"
    McpOpen "MCP_OPEN" RunTime "the server would listen without a token"
    McpTokenUnusable "MCP_TOKEN_UNUSABLE" RunTime "the token for the server cannot be used"
    McpBind "MCP_BIND" RunTime "the server cannot listen at the address"
    McpSignals "MCP_SIGNALS" RunTime "the server cannot listen for signals"
    NotText "NOT_TEXT" RunTime "a path cannot be written into the settings of the client"
    EntryDiffers "ENTRY_DIFFERS" RunTime "the client already has another entry with that name"
    OutsideProject "OUTSIDE_PROJECT" RunTime "a settings file of the project leads out of the project"
    ChangedMeanwhile "CHANGED_MEANWHILE" RunTime "the settings of the client changed meanwhile"
}

/// The documentation of all codes, in order.
const PAGE: &str = include_str!("../../docs/reference/codes.md");

impl Code {
    /// The codes of findings, in the order of the documentation.
    pub fn of_findings() -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(|code| code.level() != CodeLevel::RunTime)
    }

    /// Whether a permission, a stamp or the user's policy forbade it.
    pub fn is_denial(self) -> bool {
        matches!(
            self,
            Self::PermissionDenied
                | Self::WriteDenied
                | Self::SignatureRequired
                | Self::SignatureMismatch
                | Self::HashMismatch
                | Self::PolicyLoosened
                | Self::ConsentNeeded
                | Self::AuthoringRefused
        )
    }

    /// Whether a person or a client stopped it.
    pub fn is_cancellation(self) -> bool {
        matches!(self, Self::Interrupted | Self::Cancelled)
    }

    /// Whether the message is a text from a person or an agent.
    pub fn is_said(self) -> bool {
        matches!(self, Self::StepFailed | Self::Rejected | Self::SentBack)
    }

    /// The code with a name, in upper or lower case.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str().eq_ignore_ascii_case(name))
    }

    /// Its section of the documentation: the meaning, a failing example, and a corrected one.
    pub fn section(self) -> &'static str {
        let heading = |code: Self| PAGE.find(&format!("\n### {code}\n")).map(|at| at + 1);
        let next = Self::ALL
            .iter()
            .copied()
            .skip_while(|code| *code != self)
            .nth(1);
        let end = next.and_then(heading).unwrap_or(PAGE.len());
        let section = heading(self)
            .and_then(|start| PAGE.get(start..end))
            .unwrap_or_default()
            .trim_end();
        // The last line may be the title of the next group of codes.
        match section.rsplit_once('\n') {
            Some((before, last)) if last.starts_with("## ") => before.trim_end(),
            _ => section,
        }
    }
}

/// A code that this version does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherCode(&'static str);

impl OtherCode {
    /// How many such names are kept; journals of other versions have few.
    const MOST: usize = 256;
    /// The longest kept name.
    const LONGEST: usize = 64;

    /// Keeps a name for the rest of the process, so that codes can be copied.
    fn keep(name: &str) -> Self {
        static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(name) {
            return Self(known);
        }
        if kept.len() >= Self::MOST || name.len() > Self::LONGEST {
            return Self("OTHER");
        }
        let name: &'static str = Box::leak(name.into());
        kept.insert(name);
        Self(name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::named(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_section_of_its_own() {
        for code in Code::ALL {
            let section = code.section();
            assert!(
                section.starts_with(&format!("### {code}\n\n**")),
                "{code}: {section}"
            );
            let others = Code::ALL
                .iter()
                .filter(|other| section.contains(&format!("\n### {other}\n")));
            assert_eq!(others.count(), 0, "{code}");
            assert!(
                !section.lines().next_back().unwrap().starts_with("## "),
                "{code}"
            );
            assert_eq!(Code::find(&code.as_str().to_lowercase()), Some(*code));
        }
    }
}
