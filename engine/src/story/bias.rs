//! Whether the updates of a device class count as often as those of the others.

use tributary_protocol::state::ClassVerdict;

use crate::round::interval;

/// Chance of a false alarm over all classes of an attribute.
const LEVEL: f64 = 0.01;
/// Ended assignments without which nothing is said.
const ENDED_MIN: u64 = 5;
/// Ended assignments, and those of them with an accepted report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub counted: u64,
    pub ended: u64,
}

impl Share {
    /// 0 to 1; 0 of nothing.
    pub fn rate(self) -> f64 {
        if self.ended == 0 { 0.0 } else { self.counted as f64 / self.ended as f64 }
    }

    /// The 95 % confidence interval of the rate.
    pub fn bounds(self) -> (f64, f64) {
        interval(self.rate(), self.ended)
    }
}

/// The verdict on each class, in their order. Each is compared with all others together; the level is divided by the
/// number of classes (Bonferroni), so that an attribute with many values raises no alarm by chance.
pub fn verdicts(classes: &[Share]) -> Vec<ClassVerdict> {
    let all = classes.iter().fold(Share::default(), |sum, class| sum.plus(*class));
    let compared = classes.iter().filter(|class| class.ended > 0).count();
    classes.iter().map(|class| verdict(*class, all.minus(*class), LEVEL / compared.max(1) as f64)).collect()
}

impl Share {
    fn plus(self, other: Self) -> Self {
        Self { counted: self.counted + other.counted, ended: self.ended + other.ended }
    }

    fn minus(self, other: Self) -> Self {
        Self { counted: self.counted - other.counted, ended: self.ended - other.ended }
    }
}

fn verdict(class: Share, rest: Share, level: f64) -> ClassVerdict {
    // Of nothing the chance is 1.
    let is_rarer = chance_of_at_most(class, rest) < level;
    match is_rarer {
        true if class.counted == 0 => ClassVerdict::ShutOut,
        true => ClassVerdict::Under,
        false if class.ended < ENDED_MIN || rest.ended < ENDED_MIN => ClassVerdict::Unknown,
        false => ClassVerdict::Fair,
    }
}

/// Fisher's exact test (1935), one-sided: the chance that a class has at most this many counted reports if reports are
/// spread over all assignments without regard to classes. It is the lower tail of a hypergeometric distribution.
fn chance_of_at_most(class: Share, rest: Share) -> f64 {
    let (drawn, counted, all) = (class.ended, class.counted + rest.counted, class.ended + rest.ended);
    let fewest = counted.saturating_sub(rest.ended);
    let whole = ln_choose(all, drawn);
    let chance = |hits: u64| (ln_choose(counted, hits) + ln_choose(all - counted, drawn - hits) - whole).exp();
    // From the observed number downwards the terms fall geometrically below the mean.
    let mut sum = 0.0;
    for hits in (fewest..=class.counted).rev() {
        let term = chance(hits);
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    sum.min(1.0)
}

fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// `ln n!` by Stirling's series (Abramowitz and Stegun 1964, 6.1.41). Its error is below 1e-9 from n = 10 on; below,
/// the product is exact.
fn ln_factorial(n: u64) -> f64 {
    if n < 10 {
        return (2..=n).map(|factor| factor as f64).product::<f64>().ln();
    }
    let x = n as f64;
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI * x).ln() + series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(counted: u64, ended: u64) -> Share {
        Share { counted, ended }
    }

    #[test]
    fn a_class_that_never_counts_is_named_after_few_assignments() {
        // 12 draws of pi3 without a report, beside classes that drop over-selected clients now and then.
        let classes = [share(0, 12), share(59, 75), share(66, 70)];
        assert_eq!(verdicts(&classes), [ClassVerdict::ShutOut, ClassVerdict::Fair, ClassVerdict::Fair]);
        assert_eq!(verdicts(&[share(0, 3), share(90, 100)])[0], ClassVerdict::ShutOut);
        assert_eq!(verdicts(&[share(0, 1), share(90, 100)])[0], ClassVerdict::Unknown);
    }

    #[test]
    fn a_class_is_under_represented_when_chance_does_not_explain_it() {
        assert_eq!(verdicts(&[share(30, 60), share(90, 100)])[0], ClassVerdict::Under);
        assert_eq!(verdicts(&[share(52, 60), share(90, 100)])[0], ClassVerdict::Fair);
        assert_eq!(verdicts(&[share(3, 60)]), [ClassVerdict::Unknown], "nothing to compare");
        // The chance is 0.0043: below a half of the level, and not below a third. Empty classes are not compared.
        let classes = [share(75, 100), share(90, 100), share(0, 0)];
        assert_eq!(verdicts(&classes), [ClassVerdict::Under, ClassVerdict::Fair, ClassVerdict::Unknown]);
        assert_eq!(verdicts(&[share(75, 100), share(45, 50), share(45, 50)])[0], ClassVerdict::Fair);
        assert_eq!(verdicts(&[share(0, 40), share(0, 40)]), [ClassVerdict::Fair; 2], "nobody reports");
        assert_eq!(verdicts(&[]), []);
    }

    #[test]
    fn the_test_agrees_with_published_values() {
        // Fisher's tea-tasting lady: 3 of 4 right has a chance of 0.2429 for at least as many, so that one cup fewer
        // on the other side, at most 1 of 4, has the same.
        let chance = chance_of_at_most(share(1, 4), share(3, 4));
        assert!((chance - 17.0 / 70.0).abs() < 1e-9, "{chance}");
        // scipy.stats.fisher_exact([[1, 9], [11, 3]], "less"): 0.0013797.
        let chance = chance_of_at_most(share(1, 10), share(11, 14));
        assert!((chance - 0.001_379_728).abs() < 1e-8, "{chance}");
        let (low, high) = share(0, 10).bounds();
        assert!(low == 0.0 && (high - 0.277_533).abs() < 1e-5, "{high}");
    }

    #[test]
    fn factorials_are_exact_up_to_nine_and_near_from_ten_on() {
        assert_eq!([0, 1, 2, 9].map(ln_factorial), [1.0, 1.0, 2.0, 362_880.0].map(f64::ln));
        for (n, wanted) in [(10, 3_628_800f64.ln()), (170, 706.573_062_245_787_4)] {
            assert!((ln_factorial(n) - wanted).abs() < 1e-9, "{n}: {}", ln_factorial(n));
        }
    }

    #[test]
    fn nothing_is_said_of_fewer_than_five_ended_assignments() {
        for (class, rest, verdict) in [
            (share(4, 5), share(5, 5), ClassVerdict::Fair),
            (share(3, 4), share(9, 10), ClassVerdict::Unknown),
            (share(9, 10), share(3, 4), ClassVerdict::Unknown),
        ] {
            assert_eq!(verdicts(&[class, rest]), [verdict; 2]);
        }
        // 3 reports of 4 assignments: the class of 3 has at least 2 of them, and exactly 2 in three of four cases.
        let chance = chance_of_at_most(share(2, 3), share(1, 1));
        assert!((chance - 0.75).abs() < 1e-12, "{chance}");
    }

    proptest! {
        #[test]
        fn chances_are_chances(a in 0u64..400, b in 0u64..400, c in 0u64..4_000, d in 0u64..4_000) {
            let chance = chance_of_at_most(share(a, a + b), share(c, c + d));
            prop_assert!((0.0..=1.0).contains(&chance), "{}", chance);
            let (low, high) = share(a, a + b).bounds();
            prop_assert!(low <= share(a, a + b).rate() + 1e-12 && share(a, a + b).rate() <= high + 1e-12);
        }
    }
}
