//! Which items the user trusts: signed by an author whose key is trusted, and seen by a person.
//!
//! [`keys`] has the user's trusted keys, [`author`] judges signatures and refuses what
//! `signature.require` does not allow, [`unreviewed`] finds what agents wrote. Nothing here runs an
//! item; the consent of a person is recorded by `run::consent`.

pub mod author;
pub mod keys;
pub mod unreviewed;
