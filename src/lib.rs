//! piton runs directives and tools in a git repository with a safety rope.
//!
//! The modules, in dependency order (see `docs/ARCHITECTURE.md`):
//!
//! - [`item`]: what is on disk under `.ai/`; parsing and validation, never execution.

pub mod item;
