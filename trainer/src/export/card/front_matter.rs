//! The card's front matter, in YAML.

use std::fmt::Write;

use anyhow::Result;
use orco_benchmark::Summary;

use crate::config::Recipe;

/// The end of the `task` mapping in `model-index`. Its brace keeps it from matching elsewhere in a card, where
/// `with_settings` replaces it.
pub(super) const TASK: &str = "name: few-shot class-incremental}";

/// What Hugging Face reads: license, tags, and the results by its `model-index`. Strings are quoted as JSON, which YAML
/// reads too.
pub(super) fn front_matter(text: &mut String, recipe: &Recipe, source: &str, ours: &Summary) -> Result<()> {
    let tag = recipe.data.kind.tag();
    let license = license(recipe.license());
    let (name, source) = (serde_json::to_string(&recipe.name)?, serde_json::to_string(source)?);
    writeln!(
        text,
        "---\n{license}\nlibrary_name: onnx\npipeline_tag: image-classification\n\
         tags: [image-classification, few-shot-learning, class-incremental-learning, onnx]\ndatasets: [{tag}]\n\
         model-index:\n- name: {name}\n  results:\n  \
         - task: {{type: image-classification, {TASK}\n    \
         dataset: {{type: {tag}, name: {source}}}\n    metrics:"
    )?;
    let last = ours.sessions.last().and_then(|row| row.hm).unwrap_or(0.0);
    for (metric, value) in [("aHM", ours.ahm), ("aACC", ours.aacc), ("HM of the last session", last)] {
        writeln!(text, "    - {{type: accuracy, name: {metric}, value: {value:.2}}}")?;
    }
    writeln!(text, "---")?;
    Ok(())
}

/// Licenses that Hugging Face knows, of those that weights are given out under; by their SPDX names in small letters.
const LICENSES: [&str; 19] = [
    "mit",
    "apache-2.0",
    "bsd-2-clause",
    "bsd-3-clause",
    "isc",
    "zlib",
    "unlicense",
    "cc0-1.0",
    "cc-by-4.0",
    "cc-by-sa-4.0",
    "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0",
    "mpl-2.0",
    "gpl-2.0",
    "gpl-3.0",
    "lgpl-3.0",
    "agpl-3.0",
    "openrail",
    "unknown",
];

/// The front matter's lines for a license: the names that Hugging Face knows, else `other` and what the recipe says.
fn license(name: &str) -> String {
    let names: Vec<String> = name.split(" OR ").map(|name| name.trim().to_lowercase()).collect();
    if names.iter().any(|name| !LICENSES.contains(&name.as_str())) {
        return format!("license: other\nlicense_name: {}", serde_json::Value::from(name));
    }
    match names.as_slice() {
        [one] => format!("license: \"{one}\""),
        several => format!("license: [\"{}\"]", several.join("\", \"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_license_is_the_recipe_s() {
        assert_eq!(license("MIT OR Apache-2.0"), "license: [\"mit\", \"apache-2.0\"]");
        assert_eq!(license("CC-BY-NC-4.0"), "license: \"cc-by-nc-4.0\"");
        assert_eq!(license("ours: \"ask\""), "license: other\nlicense_name: \"ours: \\\"ask\\\"\"");
        let mut recipe: Recipe = toml::from_str(include_str!("../../../recipes/synthetic-tiny.toml")).unwrap();
        assert_eq!(recipe.license(), env!("CARGO_PKG_LICENSE"));
        recipe.backbone.weights = Some("lite0.pth".into());
        assert_eq!(recipe.license(), "unknown", "weights of others have a license of their own");
        recipe.backbone.weights = None;
        recipe.backbone.onnx = Some("imported.onnx".into());
        assert_eq!(license(recipe.license()), "license: \"unknown\"");
        recipe.export.license = Some("MIT".into());
        assert_eq!(recipe.license(), "MIT");
    }
}
