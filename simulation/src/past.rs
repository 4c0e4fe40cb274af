//! What the opening of a round reads of those before.

use std::collections::VecDeque;

use tributary_engine::round::{DiverseRound, History, LastRound, Lookback, PastWork, TaskPolicy, Trained, WorkEnd};

/// Most ended rounds that are remembered: no opening reads more.
const ROUNDS_MAX: usize = 1_000;

/// An ended training round.
#[derive(Debug)]
pub(crate) struct PastRound {
    pub(crate) number: u32,
    pub(crate) policy: TaskPolicy,
    /// None unless it was committed.
    pub(crate) training_loss: Option<f64>,
    pub(crate) norms: Vec<f64>,
    /// None unless it was committed with one.
    pub(crate) diverse: Option<DiverseRound>,
}

#[derive(Debug, Default)]
pub(crate) struct Past {
    rounds: VecDeque<PastRound>,
    /// Ended work with the number of its round, newest last.
    works: VecDeque<(u32, PastWork)>,
}

impl Past {
    pub(crate) fn round(&mut self, round: PastRound) {
        self.rounds.push_back(round);
        if self.rounds.len() > ROUNDS_MAX {
            self.rounds.pop_front();
        }
        let oldest = self.rounds.front().map_or(0, |round| round.number);
        while self.works.front().is_some_and(|(number, _)| *number < oldest) {
            self.works.pop_front();
        }
    }

    pub(crate) fn work(&mut self, round: u32, after_ms: i64, end: WorkEnd) {
        let work = PastWork { after_ms: u64::try_from(after_ms).unwrap_or(0), end, class: String::new() };
        self.works.push_back((round, work));
    }

    pub(crate) fn history(&self, lookback: &Lookback<'_>, abandoned_in_a_row: u32) -> History {
        let since = |number: u32| self.rounds.iter().filter(move |round| round.number >= number);
        History {
            abandoned_in_a_row,
            norms: match lookback.norms_since {
                Some(number) => since(number).flat_map(|round| round.norms.iter().copied()).collect(),
                None => Vec::new(),
            },
            last: self.rounds.back().filter(|_| lookback.last).map(|last| LastRound {
                policy: last.policy,
                training_loss: last.training_loss,
                norms: last.norms.clone(),
                clip_share: None,
            }),
            works: match lookback.works_since {
                Some(number) => {
                    let works = self.works.iter().filter(|(round, _)| *round >= number);
                    works.map(|(_, work)| work.clone()).collect()
                }
                None => Vec::new(),
            },
            // Nothing but the work of clients takes time here.
            overhead_ms: 0,
            diverse: {
                let diverse = self.rounds.iter().rev().filter_map(|round| round.diverse);
                diverse.take(lookback.diverse_rounds as usize).collect()
            },
            trained: Trained::default(),
        }
    }
}
