//! `include/orco.h` is what cbindgen makes of the sources. After a change of them this writes it anew:
//! `ORCO_WRITE_HEADER=1 cargo test -p orco-c --test header`.

use std::fs;
use std::path::Path;

/// In the header's order.
const SOURCES: [&str; 11] =
    ["status", "learner", "classes", "answer", "shots", "change", "balance", "history", "pack", "backup", "upgrade"];

#[test]
fn the_header_is_that_of_the_sources() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(package.join("src").join(source).with_extension("rs"));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    let (header, path) = (String::from_utf8(header).unwrap(), package.join("include/orco.h"));
    if std::env::var_os("ORCO_WRITE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == header, "{} is stale; ORCO_WRITE_HEADER=1 writes it anew:\n{header}", path.display());
}

/// A function that no listed source declares would be missing from the header.
#[test]
fn every_function_is_in_the_header() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(package.join("include/orco.h")).unwrap();
    let mut functions = 0;
    for source in fs::read_dir(package.join("src")).unwrap() {
        let source = fs::read_to_string(source.unwrap().path()).unwrap();
        for (_, rest) in source.match_indices("extern \"C\" fn ").map(|(at, found)| source.split_at(at + found.len())) {
            let name = rest.split('(').next().unwrap();
            assert!(header.contains(&format!("{name}(")), "{name} is missing");
            functions += 1;
        }
    }
    assert!(functions > 25, "{functions}");
}
