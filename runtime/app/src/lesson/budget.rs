//! The forgetting budget: how much all sessions since the bundle may cost any old class, judged by its first exemplars.

use anyhow::{Result, bail};
use orco_state::label::Shown;
use orco_state::session::{ClassAccuracy, Report};

/// Reads a budget in percent points as a share.
pub fn points(argument: &str) -> Result<f32, String> {
    match argument.parse::<f32>() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points / 100.0),
        _ => Err("expected a number from 0 to 100".into()),
    }
}

/// Refuses a session after which an old class has lost more than the budget, over all sessions so far.
pub fn check(report: &Report, budget: f32) -> Result<()> {
    let forgotten = report.forgotten_since(budget);
    if forgotten.is_empty() {
        return Ok(());
    }
    bail!(
        "{} would have lost more than the forgetting budget of {} points, over all sessions since the bundle, so nothing was \
         changed: {}; give other shots, or a larger --forgetting-budget",
        plural(forgotten.len(), "class"),
        in_points(budget),
        losses_since(&forgotten)
    )
}

/// A share in percent points, without the digits that come of its being stored as a share.
fn in_points(share: f32) -> f64 {
    (f64::from(share) * 1e6).round() / 1e4
}

fn plural(count: usize, class: &str) -> String {
    if count == 1 { format!("1 {class}") } else { format!("{count} {class}es") }
}

/// "LABEL (80 to 20 %)" for the first few of the classes: what the session cost them.
pub fn losses(forgotten: &[&ClassAccuracy]) -> String {
    listed(forgotten, |class| (class.before.unwrap_or(0.0), class.after))
}

/// The same: what all sessions cost them.
pub fn losses_since(forgotten: &[&ClassAccuracy]) -> String {
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_budget_is_printed_as_it_was_given() {
        for budget in ["0", "0.4", "2.5", "33.3", "100"] {
            assert_eq!(super::in_points(super::points(budget).unwrap()).to_string(), budget);
        }
    }
}
