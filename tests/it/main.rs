//! Integration tests: the real binary, real git.
