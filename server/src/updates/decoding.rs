//! Decoding an update in turns, so that a body that stands for many values keeps no thread for long.
//!
//! Fourteen bytes of a coded update may stand for 2^18 values (3 to 15 ms). Bodies whose length bounds their values are
//! decoded where they arrive. All others are decoded on blocking threads, at most one per core, in turns of
//! [`TURN_SECONDS`].

use std::sync::Arc;

use bytes::Bytes;
use tributary_engine::job::JobSpec;
use tributary_protocol::update::{DeltaSink, UpdateDecoder, UpdateError, UpdateLimits, UpdateStatistics};

use crate::runtime::clock::Stopwatch;
use crate::runtime::offload::{Cores, Offload};

/// Bytes of a body of fixed width that are decoded without a pause: at most 2^17 values.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of any other body that are decoded between two looks at the time.
const SLICE_BYTES: usize = 512;
/// Time after which a turn ends, and another update has the core.
const TURN_SECONDS: f64 = 0.02;
/// Updates of at most this many values are decoded where they arrive, whatever their codec.
const VALUES_AT_ONCE: usize = 1 << 16;

/// An update that is decoded into a sink.
#[derive(Debug)]
pub(super) struct Decoding<S> {
    spec: Arc<JobSpec>,
    base_version: u32,
    limits: UpdateLimits,
    cores: Cores,
    state: Offload<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    decoder: UpdateDecoder,
    sink: S,
    progress: Progress,
    seconds: f64,
}

/// How far an update was decoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes that were decoded without an error.
    pub(super) good_bytes: u64,
    /// Length of the piece that held the error. Values before the error may have reached the sink.
    pub(super) bad_bytes: u64,
}

impl<S: DeltaSink + Send + 'static> Decoding<S> {
    /// `limits` are those of the values, and of the norm if the update is yet to be accepted.
    pub(super) fn new(spec: &Arc<JobSpec>, base_version: u32, limits: UpdateLimits, cores: &Cores, sink: S) -> Self {
        let decoder = decoder(spec, base_version, limits);
        let state = State { decoder, sink, progress: Progress::default(), seconds: 0.0 };
        Self { spec: Arc::clone(spec), base_version, limits, cores: cores.clone(), state: Offload::new(state) }
    }

    /// Decodes the next bytes. After an error the sink may have received values of the piece with the error.
    pub(super) async fn push(&mut self, data: &Bytes) -> Result<(), UpdateError> {
        let mut rest = data.clone();
        while !rest.is_empty() {
            if self.is_light() {
                let piece = rest.split_to(rest.len().min(PIECE_BYTES));
                self.state.get_mut().push(&piece)?;
            } else {
                let left = rest.split_to(rest.len().min(PIECE_BYTES));
                self.push_in_turns(left).await?;
            }
        }
        Ok(())
    }

    async fn push_in_turns(&mut self, mut left: Bytes) -> Result<(), UpdateError> {
        while !left.is_empty() {
            let turn = move |state: &mut State<S>| {
                let stopwatch = Stopwatch::start();
                while !left.is_empty() && stopwatch.seconds() < TURN_SECONDS {
                    state.push(&left.split_to(left.len().min(SLICE_BYTES)))?;
                }
                Ok::<_, UpdateError>(left)
            };
            left = self.state.run_in_turn(&self.cores, turn).await?;
        }
        Ok(())
    }

    /// Decodes a piece that failed before, cut as it was then, so that the sink receives the same values.
    pub(super) async fn push_failing(&mut self, piece: Bytes) {
        // It fails as it did the first time.
        let _ = self.state.run_in_turn(&self.cores, move |state| state.push(&piece)).await;
    }

    fn is_light(&self) -> bool {
        let is_bounded = self.spec.plan.codec.is_fixed_width() && self.state.get().decoder.is_plain();
        is_bounded || self.spec.values() <= VALUES_AT_ONCE
    }

    /// Checks that the update is complete.
    pub(super) fn finish(&mut self) -> Result<UpdateStatistics, UpdateError> {
        let fresh = decoder(&self.spec, self.base_version, self.limits);
        std::mem::replace(&mut self.state.get_mut().decoder, fresh).finish()
    }
}

impl<S: Send + 'static> Decoding<S> {
    pub(super) fn progress(&self) -> Progress {
        self.state.get().progress
    }

    pub(super) fn sink(&self) -> &S {
        &self.state.get().sink
    }

    /// The sink, and the seconds that decoding took.
    pub(super) fn into_sink(self) -> (S, f64) {
        let State { sink, seconds, .. } = self.state.into_inner();
        (sink, seconds)
    }
}

impl<S: DeltaSink> State<S> {
    fn push(&mut self, piece: &[u8]) -> Result<(), UpdateError> {
        let stopwatch = Stopwatch::start();
        let pushed = self.decoder.push(piece, &mut self.sink);
        self.seconds += stopwatch.seconds();
        match pushed {
            Ok(()) => self.progress.good_bytes += piece.len() as u64,
            Err(_) => self.progress.bad_bytes = piece.len() as u64,
        }
        pushed
    }
}

fn decoder(spec: &JobSpec, base_version: u32, limits: UpdateLimits) -> UpdateDecoder {
    spec.decoder(base_version, limits)
}

#[cfg(test)]
mod tests {
    use std::thread::{ThreadId, current};

    use serde_json::json;
    use tributary_protocol::id::JobId;
    use tributary_protocol::seed::Seed;
    use tributary_protocol::update::encode;

    use super::*;

    const PARAMETERS: usize = 600_000;

    /// Notes the threads that values arrive on, and how many.
    #[derive(Debug, Default)]
    struct Noted {
        threads: Vec<ThreadId>,
        values: usize,
    }

    impl DeltaSink for Noted {
        fn dense(&mut self, _: usize, values: &[f32]) {
            self.threads.push(current().id());
            self.values += values.len();
        }

        fn sparse(&mut self, first: usize, _: &[u32], values: &[f32]) {
            self.dense(first, values);
        }
    }

    fn spec(codec: &str, parameters: usize) -> Arc<JobSpec> {
        let file = json!({
            "name": "a", "population": "p", "seed": 7,
            "model": { "parameters": [{ "name": "w", "shape": [parameters] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "update": { "codec": codec },
            "round": { "updates_goal": 1, "updates_min": 1, "deadline_ms": 1000 },
        });
        Arc::new(JobSpec::new(JobId::from_random([1; 16]), serde_json::from_value(file).unwrap()).unwrap())
    }

    fn body(spec: &JobSpec) -> Bytes {
        let delta: Vec<f32> = (0..spec.update.total()).map(|index| (index % 7) as f32 - 3.0).collect();
        encode(&delta, &spec.update, &spec.update_header(0), 1, Seed(1)).unwrap().into()
    }

    /// Decodes and returns whether the values came on this thread.
    async fn is_here(spec: &Arc<JobSpec>, body: Bytes) -> bool {
        let mut decoding = Decoding::new(spec, 0, spec.update_limits(), &Cores::default(), Noted::default());
        decoding.push(&body).await.unwrap();
        decoding.finish().unwrap();
        let (noted, _) = decoding.into_sink();
        assert_eq!(noted.values, spec.update.total());
        // The first piece shows whether the body is compressed; what follows is all decoded in the same place.
        noted.threads.last() == Some(&current().id())
    }

    #[tokio::test]
    async fn bodies_whose_length_does_not_bound_their_values_are_decoded_on_other_threads() {
        for codec in ["f32", "int8"] {
            assert!(is_here(&spec(codec, PARAMETERS), body(&spec(codec, PARAMETERS))).await, "{codec}");
        }
        let packed = tributary_protocol::body::shrink(body(&spec("f32", PARAMETERS)).to_vec());
        assert!(packed.len() < 4 * PARAMETERS / 2);
        assert!(!is_here(&spec("f32", PARAMETERS), packed.into()).await, "a compressed body");
        for codec in ["ternary", "qsgd"] {
            assert!(!is_here(&spec(codec, PARAMETERS), body(&spec(codec, PARAMETERS))).await, "{codec}");
            assert!(is_here(&spec(codec, 1_000), body(&spec(codec, 1_000))).await, "few values are decoded at once");
        }
    }

    #[tokio::test]
    async fn a_damaged_body_is_refused_wherever_it_is_decoded() {
        for codec in ["f32", "ternary"] {
            let spec = spec(codec, PARAMETERS);
            let body = body(&spec);
            let mut decoding = Decoding::new(&spec, 1, spec.update_limits(), &Cores::default(), Noted::default());
            assert!(decoding.push(&body).await.is_err(), "another base version");
            assert_eq!(decoding.progress().good_bytes, 0);
            let mut short = Decoding::new(&spec, 0, spec.update_limits(), &Cores::default(), Noted::default());
            short.push(&body.slice(..body.len() - 1)).await.unwrap();
            assert!(short.finish().is_err());
        }
    }
}
