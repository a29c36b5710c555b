//! The bundle: whether it is whole, and whose signature it has.

use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::hexadecimal;

use super::Findings;
use crate::options::Options;

/// Whether the bundle is whole: every file has the digest that its manifest says, and the signature is right.
pub fn check(options: &Options, findings: &mut Findings) -> Option<Bundle> {
    match options.open_bundle() {
        Ok(bundle) => {
            let (manifest, digest) = (&bundle.manifest, hexadecimal(&bundle.digest));
            let folder = bundle.folder.display();
            let text = format!("{} release {}, {folder}, learner {}", manifest.name, manifest.release, &digest[..16]);
            findings.good("bundle", text);
            match &options.public_key {
                Some(key) => findings.good("signature", format!("valid, by {}", key.display())),
                None => findings.note("signature", "not checked: --public-key FILE names whom to trust"),
            }
            Some(bundle)
        }
        Err(error) => {
            findings.failed("bundle", error);
            None
        }
    }
}
