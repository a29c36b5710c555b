//! What a change cost old classes, in words.

use orco_state::label::Shown;
use orco_state::session::ClassAccuracy;

/// "LABEL (80 to 20 %)" for the first few of the classes: what the session cost them.
pub fn by_this(forgotten: &[&ClassAccuracy]) -> String {
    listed(forgotten, |class| (class.before.unwrap_or(0.0), class.after))
}

/// The same: what all sessions cost them.
pub fn since_first(forgotten: &[&ClassAccuracy]) -> String {
    listed(forgotten, |class| class.since.map_or((0.0, 0.0), |since| (since.first, since.now)))
}

fn listed(forgotten: &[&ClassAccuracy], shares: impl Fn(&ClassAccuracy) -> (f32, f32)) -> String {
    const SHOWN: usize = 5;
    let one = |class: &&ClassAccuracy| {
        let (before, after) = shares(class);
        format!("{} ({:.0} to {:.0} %)", Shown(&class.label), 100.0 * before, 100.0 * after)
    };
    let mut listed: Vec<String> = forgotten.iter().take(SHOWN).map(one).collect();
    if forgotten.len() > SHOWN {
        listed.push(format!("and {} more", forgotten.len() - SHOWN));
    }
    listed.join(", ")
}
