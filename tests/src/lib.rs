//! What crosses crates is tested in `tests/`; nothing lives here.
