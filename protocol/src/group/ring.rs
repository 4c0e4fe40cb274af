//! The schedule of ring all-reduce (Patarasuk and Yuan 2009, JPDC 69(2), section 4).
//!
//! The values are cut into as many chunks as there are members. In the first m - 1 steps, reduce-scatter, a member adds
//! its own values to each chunk that it receives, so that each chunk is whole after it has visited all members. In the
//! m - 1 steps after that, all-gather, the whole chunks go round. A member sends 2(m - 1) chunks, some 2(m - 1)/m of
//! its values.

use std::ops::Range;

/// One step of a member: it sends a chunk to its right neighbour, and receives one from its left neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the step, from 0 to 2(m - 1) - 1.
    pub step: u32,
    /// Chunk that the member sends: the one that it received in the step before, and its own in step 0.
    pub send: u16,
    /// Chunk that it receives.
    pub receive: u16,
    /// Whether the member adds its own values to the received chunk. Otherwise the chunk is whole.
    pub adds: bool,
}

/// The steps of member `rank` of a ring of `members`. A ring of one has none.
///
/// In step s of reduce-scatter member p sends chunk p - s and receives chunk p - 1 - s, modulo m. In step s of
/// all-gather it sends chunk p + 1 - s and receives chunk p - s.
pub fn schedule(rank: u16, members: u16) -> impl Iterator<Item = Hop> + Clone {
    let half = u32::from(members.saturating_sub(1));
    let chunk = move |ahead: u32, back: u32| {
        let members = u32::from(members);
        // `back` is at most `members`, so the difference is not negative.
        ((u32::from(rank) + ahead + members - back) % members) as u16
    };
    (0..2 * half).map(move |step| {
        let adds = step < half;
        let (send, receive) =
            if adds { (chunk(0, step), chunk(0, step + 1)) } else { (chunk(1, step - half), chunk(0, step - half)) };
        Hop { step, send, receive, adds }
    })
}

/// Places of a chunk of so many values: an m-th of them, and in the first chunks one more, where m does not divide
/// them.
pub fn chunk_range(values: usize, members: u16, chunk: u16) -> Range<usize> {
    let (members, chunk) = (usize::from(members), usize::from(chunk));
    let (each, longer) = (values / members, values % members);
    let start = chunk * each + chunk.min(longer);
    start..start + each + usize::from(chunk < longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of whole vectors, step by step, with what each member sent.
    struct Ring {
        members: Vec<Vec<i64>>,
        messages: Vec<usize>,
        values_sent: usize,
    }

    impl Ring {
        fn new(members: Vec<Vec<i64>>) -> Self {
            Self { messages: vec![0; members.len()], members, values_sent: 0 }
        }

        fn step(&mut self, step: usize) {
            let count = self.members.len() as u16;
            let before = self.members.clone();
            for rank in 0..count {
                let hop = schedule(rank, count).nth(step).unwrap();
                assert_eq!(hop.step as usize, step);
                let left = usize::from((rank + count - 1) % count);
                let sent = schedule(left as u16, count).nth(step).unwrap().send;
                assert_eq!(sent, hop.receive, "the left neighbour sends what is received");
                let places = chunk_range(before[left].len(), count, hop.receive);
                self.messages[left] += 1;
                self.values_sent += places.len();
                let own = &mut self.members[usize::from(rank)];
                for place in places {
                    own[place] = before[left][place] + if hop.adds { own[place] } else { 0 };
                }
            }
        }
    }

    #[test]
    fn four_workers_step_through_the_table() {
        let start = [[17, 11, 1, 9], [5, 13, 23, 14], [3, 6, 10, 8], [12, 7, 2, 12]];
        let table = [
            [[17, 11, 1, 21], [22, 13, 23, 14], [3, 19, 10, 8], [12, 7, 12, 12]],
            [[17, 11, 13, 21], [22, 13, 23, 35], [25, 19, 10, 8], [12, 26, 12, 12]],
            [[17, 37, 13, 21], [22, 13, 36, 35], [25, 19, 10, 43], [37, 26, 12, 12]],
            [[37, 37, 13, 21], [22, 37, 36, 35], [25, 19, 36, 43], [37, 26, 12, 43]],
            [[37, 37, 13, 43], [37, 37, 36, 35], [25, 37, 36, 43], [37, 26, 36, 43]],
            [[37, 37, 36, 43], [37, 37, 36, 43], [37, 37, 36, 43], [37, 37, 36, 43]],
        ];
        let mut ring = Ring::new(start.map(Vec::from).to_vec());
        for (step, expected) in table.iter().enumerate() {
            ring.step(step);
            assert_eq!(ring.members, expected.map(Vec::from), "step {}", step + 1);
        }
        assert_eq!((ring.messages.iter().sum::<usize>(), ring.values_sent), (24, 4 * 6));
    }

    #[test]
    fn every_ring_gives_the_direct_sum_with_as_few_messages() {
        for members in 2..=9usize {
            for values in 0..=1000usize {
                let own = |member: usize| (0..values).map(|at| (at * 31 + member * 1009) as i64 % 257 - 99).collect();
                let vectors: Vec<Vec<i64>> = (0..members).map(own).collect();
                let sum: Vec<i64> = (0..values).map(|at| vectors.iter().map(|vector| vector[at]).sum()).collect();
                let mut ring = Ring::new(vectors);
                (0..2 * (members - 1)).for_each(|step| ring.step(step));
                assert!(ring.members.iter().all(|member| *member == sum), "{members} members, {values} values");
                assert!(ring.messages.iter().all(|messages| *messages == 2 * (members - 1)));
                assert_eq!(ring.values_sent, 2 * (members - 1) * values);
            }
        }
    }

    #[test]
    fn chunks_are_consecutive_and_the_first_ones_longer() {
        assert_eq!([0, 1, 2, 3].map(|chunk| chunk_range(10, 4, chunk)), [0..3, 3..6, 6..8, 8..10]);
        assert_eq!([0, 1, 2].map(|chunk| chunk_range(2, 3, chunk)), [0..1, 1..2, 2..2]);
        for (members, values) in [(2, 0), (5, 3), (7, 700), (256, 1_000_001), (u16::MAX, usize::MAX)] {
            let mut next = 0;
            for chunk in 0..members {
                let range = chunk_range(values, members, chunk);
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, values);
        }
    }

    #[test]
    fn a_member_sends_on_what_it_received() {
        for members in [2, 3, 8, u16::MAX] {
            for rank in [0, 1, members - 1] {
                let hops = schedule(rank, members);
                assert_eq!(hops.clone().next().map(|hop| hop.send), Some(rank));
                let mut next = rank;
                for hop in hops.clone() {
                    assert_eq!(hop.send, next);
                    next = hop.receive;
                }
                assert_eq!(hops.count(), 2 * usize::from(members - 1));
            }
        }
        assert_eq!((schedule(0, 1).count(), schedule(0, 0).count()), (0, 0));
    }
}
