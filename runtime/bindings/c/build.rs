//! Gives the shared library its name. Without one, a program that is linked with the library by its path, as by CMake,
//! looks for it at that path alone.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liborco.so");
    }
}
