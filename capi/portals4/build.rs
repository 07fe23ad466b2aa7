//! Gives `libportals.so` its own file name as soname, so that programs and the libfabric provider
//! that link to it find it beside themselves; and keeps it in a process that has loaded it, because the preload
//! library goes on calling it when an MPI library has closed the component that brought it in.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libportals.so,-z,nodelete");
}
