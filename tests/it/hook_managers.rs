//! Other managers of hooks.
