//! Tells the program which commit it is built from, where git keeps its sources; results pass that on.

mod commit;

fn main() {
    // What is compiled anyway: another commit of the same sources is no reason to compile again.
    let own = ["build.rs", "commit.rs", "Cargo.toml", "src"];
    let others = ["../../Cargo.lock", "../benchmark/src", "../core/src", "../state/src", "../src"];
    for path in own.iter().chain(&others) {
        println!("cargo:rerun-if-changed={path}");
    }
    commit::tell(&["..", "../../Cargo.lock", "../../Cargo.toml"]);
}
