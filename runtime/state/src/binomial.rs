//! Tails of the binomial distribution, exact for any number of trials.

/// Probability of at least `count` successes in `trials`, each with the probability `rate`.
pub fn at_least(count: u32, trials: u32, rate: f64) -> f64 {
    if count == 0 || rate >= 1.0 {
        return 1.0;
    }
    if rate <= 0.0 {
        return 0.0;
    }
    probability(trials, rate, |successes| successes >= count)
}

/// Probability of at most `count` successes in `trials`, each with the probability `rate`.
pub fn at_most(count: u32, trials: u32, rate: f64) -> f64 {
    if count >= trials || rate <= 0.0 {
        return 1.0;
    }
    if rate >= 1.0 {
        return 0.0;
    }
    probability(trials, rate, |successes| successes <= count)
}

/// Probability of the numbers of successes that `counts` accepts; `rate` lies between 0 and 1.
fn probability(trials: u32, rate: f64, counts: impl Fn(u32) -> bool) -> f64 {
    // Each number's weight follows from its neighbour's, and the likeliest number comes first: only weights that are
    // negligible beside it underflow. The weight of no success would underflow by itself from some hundred trials on.
    let odds = rate / (1.0 - rate);
    let likeliest = (((f64::from(trials) + 1.0) * rate) as u32).min(trials);
    let (mut all, mut accepted) = (0.0, 0.0);
    let mut add = |successes: u32, weight: f64| {
        all += weight;
        accepted += if counts(successes) { weight } else { 0.0 };
    };
    let mut weight = 1.0;
    for successes in likeliest..=trials {
        add(successes, weight);
        weight *= f64::from(trials - successes) / f64::from(successes + 1) * odds;
    }
    weight = 1.0;
    for successes in (0..likeliest).rev() {
        weight *= f64::from(successes + 1) / f64::from(trials - successes) / odds;
        add(successes, weight);
    }
    accepted / all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_tails_are_those_of_the_binomial_distribution() {
        for (count, trials, rate, expected) in [
            (1, 5, 0.1, 0.409_51),
            (3, 5, 0.1, 0.008_56),
            (5, 5, 0.2, 0.000_32),
            (0, 5, 0.1, 1.0),
            (1, 300, 0.02, 0.997_667),
            (12, 300, 0.02, 0.018_969),
        ] {
            let found = at_least(count, trials, rate);
            assert!((found - expected).abs() < 1e-5, "{count} of {trials} at {rate}: {found}");
        }
        assert!((at_least(900, 1000, 0.9) - 0.526_599).abs() < 1e-5, "nothing underflows");
        assert_eq!((at_least(1, 5, 0.0), at_least(5, 5, 1.0)), (0.0, 1.0));
    }

    #[test]
    fn lower_tails_are_those_of_the_binomial_distribution() {
        assert!((at_most(0, 2, 0.5) - 0.25).abs() < 1e-12);
        assert!((at_most(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_most(3, 5, 0.25) - (1.0 - 16.0 / 1024.0)).abs() < 1e-12);
        assert!((at_most(5, 5, 0.9) - 1.0).abs() < 1e-12);
        assert_eq!((at_most(0, 5, 0.0), at_most(4, 5, 1.0)), (1.0, 0.0));
    }

    #[test]
    fn both_tails_add_up_where_no_success_is_too_improbable_for_a_number() {
        for (count, trials, rate) in [(151, 400, 151.0 / 152.0), (900, 1000, 0.9), (20, 100_000, 0.000_2)] {
            let sum = at_most(count - 1, trials, rate) + at_least(count, trials, rate);
            assert!((sum - 1.0).abs() < 1e-12, "{count} of {trials} at {rate}: {sum}");
        }
    }
}
