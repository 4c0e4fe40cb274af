//! Uniform numbers that are as long as their comparisons need, and the two coins that the samplers are made of.
//!
//! Both coins are algorithms of Karney 2016 (<https://arxiv.org/abs/1303.6257>).

use std::cmp::Ordering;

use crate::seed::SecretStream;

/// A number in `[0, 1)` of which so many words are known: those behind the first are found where a comparison ties, and
/// kept. Ties are rare, so most numbers are one word.
#[derive(Debug)]
pub(super) struct Uniform {
    pub(super) first: u64,
    /// None for a uniform number of which no further word is known.
    further: Option<Box<Further>>,
}

/// Words behind the first.
#[derive(Debug, Default)]
struct Further {
    known: Vec<u64>,
    /// Where the number is a fraction: its remainder, to be divided by that. Else it is uniform.
    divided: Option<(u64, u64)>,
}

impl Uniform {
    /// A uniform number.
    pub(super) fn draw(stream: &mut SecretStream) -> Self {
        Self { first: stream.next_u64(), further: None }
    }

    /// The fraction `over / under`, exactly; `over` is below `under`.
    pub(super) fn fraction(over: u64, under: u64) -> Self {
        let (first, remainder) = next_word(over, under);
        Self { first, further: Some(Box::new(Further { known: Vec::new(), divided: Some((remainder, under)) })) }
    }

    /// Its first two words.
    pub(super) fn two_words(mut self, stream: &mut SecretStream) -> [u64; 2] {
        let second = if self.further.is_none() { stream.next_u64() } else { self.further(0, stream) };
        [self.first, second]
    }

    /// The word at this place, of those behind the first.
    fn further(&mut self, at: usize, stream: &mut SecretStream) -> u64 {
        let Further { known, divided } = &mut **self.further.get_or_insert_default();
        while known.len() <= at {
            known.push(match divided {
                None => stream.next_u64(),
                Some((over, under)) => {
                    let (word, remainder) = next_word(*over, *under);
                    *over = remainder;
                    word
                }
            });
        }
        known[at]
    }

    /// Whether this number is below another one, of which at least one is drawn.
    fn is_below(&mut self, other: &mut Self, stream: &mut SecretStream) -> bool {
        if self.first != other.first { self.first < other.first } else { self.ties_below(other, stream) }
    }

    #[cold]
    fn ties_below(&mut self, other: &mut Self, stream: &mut SecretStream) -> bool {
        for at in 0.. {
            match self.further(at, stream).cmp(&other.further(at, stream)) {
                Ordering::Less => return true,
                Ordering::Greater => return false,
                Ordering::Equal => {}
            }
        }
        false
    }
}

/// The next 64 bits of a fraction, and the remainder.
fn next_word(over: u64, under: u64) -> (u64, u64) {
    let (shifted, under) = (u128::from(over) << 64, u128::from(under));
    ((shifted / under) as u64, (shifted % under) as u64)
}

/// True with probability `exp(-1/2)` (algorithm H).
pub(super) fn half(stream: &mut SecretStream) -> bool {
    let mut one = Uniform::draw(stream);
    if one.first >> 63 == 1 {
        return true;
    }
    loop {
        let mut other = Uniform::draw(stream);
        if !other.is_below(&mut one, stream) {
            return false;
        }
        one = Uniform::draw(stream);
        if !one.is_below(&mut other, stream) {
            return true;
        }
    }
}

/// True with probability `exp(-x (2k + x) / (2k + 2))` (algorithm B).
pub(super) fn falls(k: u64, x: &mut Uniform, stream: &mut SecretStream) -> bool {
    // None stands for x itself, whose further words are found once.
    let (mut least, mut is_even) = (None::<Uniform>, true);
    loop {
        let mut next = Uniform::draw(stream);
        if !next.is_below(least.as_mut().unwrap_or(x), stream) {
            return is_even;
        }
        let choice = choice(k, stream);
        if choice > 2 * k {
            return is_even;
        }
        if choice == 2 * k && !Uniform::draw(stream).is_below(x, stream) {
            return is_even;
        }
        (least, is_even) = (Some(next), !is_even);
    }
}

/// A choice of `2k + 2`. Most have a small k, and a division by a number that the compiler knows is a product.
fn choice(k: u64, stream: &mut SecretStream) -> u64 {
    match k {
        0 => stream.below(2),
        1 => stream.below(4),
        2 => stream.below(6),
        _ => stream.below(2 * k + 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of 1/3 are 0x5555.., those of a half are one bit.
    #[test]
    fn a_fraction_has_the_words_of_its_division() {
        let mut stream = SecretStream::of([0; 32]);
        let mut words = |over, under| {
            let mut fraction = Uniform::fraction(over, under);
            [fraction.first, fraction.further(0, &mut stream), fraction.further(1, &mut stream)]
        };
        assert_eq!(words(1, 3), [0x5555_5555_5555_5555; 3]);
        assert_eq!(words(1, 2), [1 << 63, 0, 0]);
        assert_eq!(words(0, 7), [0; 3]);
        assert_eq!(words(u64::MAX - 1, u64::MAX), [u64::MAX - 1; 3]);
    }
}
