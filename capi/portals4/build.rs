//! Gives `libportals.so` its own file name as soname, so that programs and the libfabric provider
//! that link to it find it beside themselves.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libportals.so");
}
