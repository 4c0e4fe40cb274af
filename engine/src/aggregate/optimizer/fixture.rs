//! Two rounds of every server optimiser, with the printed digits of an independent computation in f64.

use tributary_protocol::job_file::{Aggregation, BiasCorrection, ServerOptimizer};
use tributary_protocol::rate::RateSchedule;

use super::optimizer_of;

const START: [f64; 3] = [1.0, -2.0, 0.5];
const DELTAS: [[[f64; 3]; 3]; 2] = [
    [[0.3, -0.1, 0.02], [-0.1, 0.4, 0.0], [0.2, 0.1, -0.06]],
    [[0.1, 0.1, 0.1], [0.05, -0.2, 0.0], [-0.15, 0.3, 0.05]],
];
const EXAMPLES: [f64; 3] = [10.0, 20.0, 30.0];

fn mean(round: usize) -> Vec<f64> {
    let weighted = |index: usize| DELTAS[round].iter().zip(EXAMPLES).map(move |(delta, n)| delta[index] * n);
    (0..3).map(|index| weighted(index).sum::<f64>() / 60.0).collect()
}

/// The models after the two rounds.
fn play(optimizer: ServerOptimizer, schedule: &RateSchedule) -> [Vec<f64>; 2] {
    let aggregation = Aggregation { optimizer, schedule: schedule.clone(), ..Aggregation::default() };
    let mut model = START.to_vec();
    let first = optimizer_of(&aggregation, 0.1, 0);
    let mut companions: Vec<Vec<f64>> =
        first.companions().iter().map(|companion| vec![first.initial(*companion); 3]).collect();
    [0, 1].map(|round| {
        let mut step = mean(round);
        optimizer_of(&aggregation, 0.1, round as u32).step(&mut step, &mut companions);
        model.iter_mut().zip(step).for_each(|(value, step)| *value += step);
        model.clone()
    })
}

fn check(optimizer: ServerOptimizer, expected: [[f64; 3]; 2]) {
    for (got, expected) in play(optimizer, &RateSchedule::Constant).iter().zip(expected) {
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 6e-13, "{optimizer:?}: {got} instead of {expected}");
        }
    }
}

fn adam(v0: f64, bias_correction: BiasCorrection) -> ServerOptimizer {
    ServerOptimizer::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3, v0: Some(v0), bias_correction }
}

#[test]
fn federated_averaging_with_and_without_momentum() {
    let once = [1.116666666667, -1.833333333333, 0.473333333333];
    check(ServerOptimizer::plain(1.0), [once, [1.075, -1.733333333333, 0.515]]);
    let momentum = |nesterov| ServerOptimizer::Sgd { learning_rate: 1.0, momentum: 0.9, nesterov };
    check(momentum(false), [once, [1.18, -1.583333333333, 0.491]]);
    check(momentum(true), [[1.221666666667, -1.683333333333, 0.449333333333], [1.237, -1.358333333333, 0.5069]]);
}

#[test]
fn adagrad() {
    let adagrad = ServerOptimizer::Adagrad { learning_rate: 0.1, beta1: 0.0, tau: 1e-3, v0: Some(0.0) };
    check(
        adagrad,
        [[1.099150141643, -1.900596421471, 0.403614457831], [1.065785821191, -1.849410196881, 0.486172722728]],
    );
}

#[test]
fn adam_without_and_with_bias_correction() {
    let once = [1.092105263158, -1.905660377358, 0.427272727273];
    check(adam(0.0, BiasCorrection::None), [once, [1.139605263158, -1.782900238782, 0.457015851768]]);
    let paper = [[1.091798330367, -1.905818567962, 0.430668311446], [1.139157425274, -1.783210686299, 0.459927560029]];
    check(adam(1e-6, BiasCorrection::None), paper);
    let by_default = ServerOptimizer::Adam {
        learning_rate: 0.1,
        beta1: 0.9,
        beta2: 0.99,
        tau: 1e-3,
        v0: None,
        bias_correction: BiasCorrection::None,
    };
    check(by_default, paper);
    check(adam(0.0, BiasCorrection::Kingma), [once, [1.127372103107, -1.814515910847, 0.449355801192]]);
    check(
        adam(0.0, BiasCorrection::Flower),
        [[1.068384454195, -1.929956623736, 0.44600292448], [1.098591611323, -1.851888522788, 0.464917771535]],
    );
}

#[test]
fn yogi() {
    let yogi = |v0| ServerOptimizer::Yogi { learning_rate: 0.01, beta1: 0.9, beta2: 0.99, tau: 1e-3, v0: Some(v0) };
    check(
        yogi(0.0),
        [[1.009210526316, -1.990566037736, 0.492727272727], [1.013940992816, -1.978333027057, 0.495697987853]],
    );
    check(
        yogi(1e-6),
        [[1.009179524612, -1.990582016171, 0.493069995318], [1.01389579662, -1.978364374485, 0.495991553585]],
    );
}

#[test]
fn a_schedule_scales_the_rate_of_each_round() {
    let halves = RateSchedule::Exponential { decay: 0.5, every: 1 };
    let [first, second] = play(ServerOptimizer::plain(1.0), &halves);
    let [same, plain] = play(ServerOptimizer::plain(1.0), &RateSchedule::Constant);
    assert_eq!(first, same);
    for ((second, plain), first) in second.iter().zip(plain).zip(first) {
        assert!((second - (first + (plain - first) / 2.0)).abs() < 1e-15);
    }
}

#[test]
fn blocks_of_any_length_give_the_same_bits() {
    let aggregation = Aggregation { optimizer: adam(0.0, BiasCorrection::None), ..Aggregation::default() };
    let optimizer = optimizer_of(&aggregation, 0.1, 3);
    let values: Vec<f64> = (0..100).map(|index| f64::from(index % 7) - 3.1).collect();
    let state = |range: std::ops::Range<usize>| -> Vec<Vec<f64>> {
        vec![range.clone().map(|index| index as f64 * 0.1).collect(), range.map(|index| 1.0 - index as f64).collect()]
    };
    let mut whole = (values.clone(), state(0..100));
    optimizer.step(&mut whole.0, &mut whole.1);
    let mut step = Vec::new();
    let mut companions = vec![Vec::new(), Vec::new()];
    for range in [0..1, 1..64, 64..100] {
        let mut part = (values[range.clone()].to_vec(), state(range));
        optimizer.step(&mut part.0, &mut part.1);
        step.extend(part.0);
        companions.iter_mut().zip(part.1).for_each(|(all, part)| all.extend(part));
    }
    assert_eq!((step, companions), whole);
}
