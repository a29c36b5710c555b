//! Tells the program which commit it is built from, where git keeps its sources; results pass that on.

mod commit;

fn main() {
    // What is compiled anyway: another commit of the same sources is no reason to compile again.
    for path in ["build.rs", "commit.rs", "Cargo.toml", "src", "../../Cargo.lock", "../benchmark/src", "../src"] {
        println!("cargo:rerun-if-changed={path}");
    }
    commit::tell(&["..", "../../Cargo.lock", "../../Cargo.toml"]);
}
