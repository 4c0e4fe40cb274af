//! Predictions allocate nothing after the first call of each thread. A binary of its own, because its allocator counts.

#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong should end it at once")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tributary_client::predict::Predictor;
use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, ModelSpec, Padding};
use tributary_protocol::seed::Seed;

thread_local! {
    /// Allocations of this thread: other tests do not disturb it.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "the trait is unsafe to implement; all calls go to the system's allocator unchanged")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn predictor(input: Vec<usize>, layers: Vec<Layer>) -> Predictor {
    let network = LayeredModel { input, layers };
    let model = ModelSpec::Layers(network.clone()).initial_model(Seed(1)).unwrap();
    Predictor::new(&network, &model).unwrap()
}

/// Networks with layers of every kind.
fn predictors() -> Vec<Predictor> {
    let (kernel_size, stride) = (HeightWidth::square(3), HeightWidth::square(1));
    let conv = Layer::Conv2d { out_channels: 5, kernel_size, stride, padding: Padding::Same, bias: true };
    let image = vec![
        conv,
        Layer::BatchNorm { epsilon: 1e-5, momentum: 0.1 },
        Layer::Relu {},
        Layer::MaxPool2d { kernel_size: HeightWidth::square(2), stride: None },
        Layer::AvgPool2d { kernel_size: HeightWidth::square(2), stride: None },
        Layer::Gelu {},
        Layer::Tanh {},
        Layer::Sigmoid {},
        Layer::Dropout { probability: 0.5 },
        Layer::Flatten {},
        Layer::LayerNorm { epsilon: 1e-5 },
        Layer::Linear { out_features: 9, bias: true },
        Layer::LowRank { out_features: 3, rank: 2, alpha: None, bias: true },
    ];
    let sequence = vec![
        Layer::Embedding { tokens: 7, size: 4 },
        Layer::Lstm { hidden_size: 6, return_sequences: true },
        Layer::Linear { out_features: 5, bias: true },
        Layer::Gru { hidden_size: 3, return_sequences: false },
    ];
    vec![predictor(vec![2, 8, 8], image), predictor(vec![40], sequence)]
}

#[test]
fn a_prediction_allocates_nothing_after_the_first_of_its_thread() {
    for predictor in predictors() {
        let inputs = vec![1.0; predictor.input_shape().iter().product()];
        let mut outputs = vec![0.0; predictor.output_shape().iter().product()];
        let before = COUNT.get();
        predictor.predict(&inputs, &mut outputs).unwrap();
        assert!(COUNT.get() > before, "the first call makes its buffers, or nothing is counted");
        let before = COUNT.get();
        for _ in 0..100 {
            predictor.predict(&inputs, &mut outputs).unwrap();
        }
        assert_eq!(COUNT.get(), before);
    }
}

#[test]
fn threads_at_the_same_time_allocate_one_set_of_buffers_each_and_then_nothing() {
    const THREADS: u64 = 6;
    let predictor = &predictors()[0];
    let start_together = &std::sync::Barrier::new(THREADS as usize);
    let allocations: u64 = std::thread::scope(|scope| {
        let work = move || {
            let inputs = vec![0.5; predictor.input_shape().iter().product()];
            let mut outputs = vec![0.0; predictor.output_shape().iter().product()];
            start_together.wait();
            let before = COUNT.get();
            for _ in 0..100 {
                predictor.predict(&inputs, &mut outputs).unwrap();
            }
            COUNT.get() - before
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Two buffers of values, the room of the steps, and the list that they wait in.
    assert!((3..=4 * THREADS).contains(&allocations), "{allocations} allocations in {} predictions", 100 * THREADS);
}
