//! Arithmetic of `long double`, which each processor has in a way of its own.

#[cfg(not(target_arch = "x86_64"))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use other::{difference, order, product, sum};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{difference, order, product, sum};

/// Whether atomics know the `long double` of the processor that this is built for.
pub const HAS_LONG_DOUBLE: bool = cfg!(target_arch = "x86_64");
