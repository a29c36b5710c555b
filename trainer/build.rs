//! Compiles the functions of c10d that tch does not offer (`cpp`), and tells the program which commit it is built from,
//! where git keeps its sources; `run.json` passes that on.

use std::path::Path;

#[path = "../runtime/lab/commit.rs"]
mod commit;

fn main() {
    // What is compiled anyway: another commit of the same sources is no reason to compile again.
    for path in ["build.rs", "Cargo.toml", "cpp", "src", "../Cargo.lock", "../runtime/src"] {
        println!("cargo:rerun-if-changed={path}");
    }
    compile_c10d();
    commit::tell(&[".", "../runtime", "../Cargo.lock", "../Cargo.toml"]);
}

/// Compiles `cpp/c10d.cpp` against the headers of the libtorch that torch-sys found, and says so by `cfg(c10d)`.
/// Without those headers the trainer works in one process only.
fn compile_c10d() {
    println!("cargo:rustc-check-cfg=cfg(c10d)");
    for name in ["LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let Some(libraries) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") else { return };
    let root = Path::new(&libraries).parent().unwrap_or(Path::new("/")).to_owned();
    let root = std::env::var_os("LIBTORCH_INCLUDE").map_or(root, Into::into);
    let include = root.join("include");
    if !include.join("torch/csrc/distributed/c10d/ProcessGroupGloo.hpp").is_file() {
        println!("cargo:warning=libtorch's headers lack c10d: the trainer will train in one process only");
        return;
    }
    let abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").pic(true).warnings(false).include("cpp").include("cpp/include");
    for folder in [include.clone(), include.join("torch/csrc/api/include")] {
        build.flag("-isystem").flag(folder);
    }
    build.define("_GLIBCXX_USE_CXX11_ABI", abi.as_str()).define("USE_C10D_GLOO", None).file("cpp/c10d.cpp");
    if std::env::var_os("CARGO_FEATURE_NCCL").is_some() {
        build.define("ORCO_NCCL", None).file("cpp/nccl.cpp");
    }
    build.compile("orco_c10d");
    println!("cargo:rustc-cfg=c10d");
}
