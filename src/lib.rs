//! tilewright.
