//! Placeholder, replaced by the first commits.
