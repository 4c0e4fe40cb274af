//! Secrets in shares (Shamir 1979), byte by byte over GF(2^8) with the polynomial 0x11b.
//!
//! A share's number x and which members hold it are public. Everything that depends on a secret takes the same time for
//! every secret: there are no tables, and no branch looks at a byte.

use super::keys::SecretBytes;

/// Shares that rebuild nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shares have different numbers from 1 to 255, and there is at least one")]
pub struct BadNumbers;

/// Shares number 1 to `count` of a secret, of which one more than there are coefficients rebuild it. The coefficients
/// must be random and secret.
pub fn split(secret: &SecretBytes, coefficients: &[SecretBytes], count: u8) -> Vec<SecretBytes> {
    (1..=count).map(|number| share(secret, coefficients, number)).collect()
}

/// The polynomial at `number`, by Horner's rule.
fn share(secret: &SecretBytes, coefficients: &[SecretBytes], number: u8) -> SecretBytes {
    let mut sum = [0; 32];
    for coefficient in coefficients.iter().rev().chain([secret]) {
        scale(&mut sum, number);
        add(&mut sum, coefficient.expose());
    }
    SecretBytes::new(sum)
}

/// The secret of as many shares as rebuild it, each with its number. Of fewer, or with a false one among them, the
/// result is another secret.
///
/// # Errors
/// [`BadNumbers`] if there is no share, a number is 0 or is there twice.
pub fn combine(shares: &[(u8, &SecretBytes)]) -> Result<SecretBytes, BadNumbers> {
    interpolate(shares, 0)
}

/// The polynomial of these shares at `x`: the share of this number, or the secret for 0.
///
/// # Errors
/// [`BadNumbers`] as for [`combine`].
pub fn interpolate(shares: &[(u8, &SecretBytes)], x: u8) -> Result<SecretBytes, BadNumbers> {
    let is_bad = |place: usize| shares[place].0 == 0 || shares[..place].iter().any(|(x, _)| *x == shares[place].0);
    if shares.is_empty() || (0..shares.len()).any(is_bad) {
        return Err(BadNumbers);
    }
    let mut sum = [0; 32];
    for (number, share) in shares {
        // Lagrange's factor; addition and subtraction are the same.
        let (mut above, mut below) = (1, 1);
        for (other, _) in shares.iter().filter(|(other, _)| other != number) {
            above = multiply(above, other ^ x);
            below = multiply(below, other ^ number);
        }
        let mut term = *share.expose();
        scale(&mut term, multiply(above, inverse(below)));
        add(&mut sum, &term);
        zeroize::Zeroize::zeroize(&mut term);
    }
    Ok(SecretBytes::new(sum))
}

/// Multiplies each byte with a number that is public.
fn scale(bytes: &mut [u8; 32], factor: u8) {
    bytes.iter_mut().for_each(|byte| *byte = multiply(*byte, factor));
}

fn add(sum: &mut [u8; 32], other: &[u8; 32]) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum ^= other);
}

/// The product of two polynomials modulo 0x11b.
#[inline]
fn multiply(one: u8, other: u8) -> u8 {
    let (mut product, mut shifted) = (0, one);
    for bit in 0..8 {
        product ^= shifted & (other >> bit & 1).wrapping_neg();
        shifted = shifted << 1 ^ 0x1b & (shifted >> 7).wrapping_neg();
    }
    product
}

/// The power of 254, which is the inverse of every number but 0.
fn inverse(number: u8) -> u8 {
    let mut power = number;
    for _ in 0..6 {
        power = multiply(multiply(power, power), number);
    }
    multiply(power, power)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vectors::{bytes, hex, secret};
    use super::*;

    #[test]
    fn the_field_is_that_of_the_vectors() {
        assert_eq!(multiply(0x57, 0x83), 0xc1);
        assert_eq!(inverse(0x53), 0xca);
        assert!((1..=255).all(|number| multiply(number, inverse(number)) == 1));
    }

    #[test]
    fn shares_are_those_of_the_vectors() {
        let coefficients = [
            "64aa44a2cd836b7c5afadc5fb12433ee98033182a6b2b19cf5b957fef6b98919",
            "5615b69b09fa6a19cb38e05d6c1dddcc1503336238c5c4f06cdd0fe344ddcc30",
        ]
        .map(|digits| SecretBytes::new(bytes(digits)));
        let shares = split(&secret("s", 0), &coefficients, 5);
        for (number, share) in [
            (1, "1d3bd421497c16771a6648c133ca9b3a32239412024d76cc13ac440964b38de5"),
            (2, "a49f401d28dd728e3eab7a123ccf4ac2c029387e2b7c476ed0f88e522ae7dc3e"),
            (3, "9620b224eca473ebaf694610e1f6a4e04d293a9eb50b3202499cd64f98839917"),
            (4, "b351b8d504065a72fcccab0386a8c6f9a21f4fb69f20057fe965ab730f7aae85"),
            (5, "81ee4aecc07f5b176d0e97015b9128db2f1f4d56015770137001f36ebd1eebac"),
        ] {
            assert_eq!(hex(shares[number - 1].expose()), share);
        }
        let of = |numbers: &[u8]| {
            let shares: Vec<_> = numbers.iter().map(|number| (*number, &shares[usize::from(number - 1)])).collect();
            combine(&shares).unwrap()
        };
        assert_eq!(of(&[1, 3, 5]), secret("s", 0));
        let too_few = hex(of(&[2, 4]).expose());
        assert!(too_few.starts_with("a92ce1ac") && too_few.ends_with("065f257"), "{too_few}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_shares_rebuild_the_secret_and_each_other(
            secret: [u8; 32], coefficients in prop::collection::vec(any::<[u8; 32]>(), 1..40), more in 0u8..20,
            seed: u64) {
            let (secret, threshold) = (SecretBytes::new(secret), coefficients.len() + 1);
            let coefficients: Vec<_> = coefficients.into_iter().map(SecretBytes::new).collect();
            let shares = split(&secret, &coefficients, threshold as u8 + more);
            let mut numbered: Vec<_> = (1..).zip(&shares).collect();
            crate::seed::Seed(seed).stream().shuffle(&mut numbered);
            prop_assert_eq!(&combine(&numbered[..threshold]).unwrap(), &secret);
            let (number, last) = numbered[numbered.len() - 1];
            prop_assert_eq!(&interpolate(&numbered[..threshold], number).unwrap(), last);
        }
    }

    #[test]
    fn numbers_that_are_zero_or_twice_are_refused() {
        let secret = secret("s", 0);
        assert_eq!(combine(&[]), Err(BadNumbers));
        assert_eq!(combine(&[(0, &secret)]), Err(BadNumbers));
        assert_eq!(combine(&[(3, &secret), (1, &secret), (3, &secret)]), Err(BadNumbers));
    }
}
