//! What a change cost old classes, in words.

use orco_state::escape::EscapedText;
use orco_state::sentence::{counted, join_first};
use orco_state::session::{ClassAccuracy, ForgettingExcess, GroupLoss};

/// "LABEL (80 to 20 %)" for the first few of the classes: what the session cost them.
pub fn session_loss_sentence(forgotten: &[&ClassAccuracy]) -> String {
    listed(forgotten, |class| (class.before.unwrap_or(0.0), class.after))
}

/// "LABEL (80 to 20 %)" for the first few of the classes: what all sessions cost them.
pub fn forgetting_sentence(forgotten: &[&ClassAccuracy]) -> String {
    listed(forgotten, |class| class.since.map_or((0.0, 0.0), |since| (since.first, since.now)))
}

/// "classes of the bundle together (80.0 to 72.5 % of 300 samples)".
pub fn group_sentence(loss: &GroupLoss) -> String {
    let GroupLoss { group, since, .. } = loss;
    let samples = counted(since.samples as usize, "sample");
    format!("{group} together ({:.1} to {:.1} % of {samples})", 100.0 * since.first, 100.0 * since.now)
}

/// What is beyond a budget: groups, then the first few of the classes, with the samples that each is judged by.
pub fn excess_sentence(excess: &ForgettingExcess) -> String {
    let mut all: Vec<String> = excess.groups.iter().map(group_sentence).collect();
    if !excess.classes.is_empty() {
        let mut samples: Vec<u32> = excess.classes.iter().filter_map(|class| Some(class.since?.samples)).collect();
        samples.sort_unstable();
        let each = match samples[..] {
            [least, .., most] if least < most => format!("{least} to {most} samples"),
            [any, ..] => counted(any as usize, "sample"),
            [] => "no samples".into(),
        };
        let classes: Vec<&ClassAccuracy> = excess.classes.iter().collect();
        all.push(format!("{}, by {each} each", forgetting_sentence(&classes)));
    }
    all.join("; ")
}

fn listed(forgotten: &[&ClassAccuracy], shares: impl Fn(&ClassAccuracy) -> (f32, f32)) -> String {
    const SHOWN: usize = 5;
    let one = |class: &&ClassAccuracy| {
        let (before, after) = shares(class);
        format!("{} ({:.0} to {:.0} %)", EscapedText(&class.label), 100.0 * before, 100.0 * after)
    };
    join_first(forgotten.iter().map(one), SHOWN, ", ")
}
