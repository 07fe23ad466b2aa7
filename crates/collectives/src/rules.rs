//! Which algorithm for which size.
