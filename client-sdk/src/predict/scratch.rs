//! The buffers of a prediction.

use std::sync::Mutex;

use crate::locked::Locked;

/// The buffers of one prediction.
#[derive(Debug)]
pub(super) struct Scratch {
    /// What a step reads, and what it puts out: steps take turns.
    pub(super) values: [Vec<f32>; 2],
    /// The ranges that steps keep to themselves. A convolution's image has a border of zeros, which stay.
    pub(super) room: Vec<f32>,
}

/// Buffers that wait for the next prediction: as many as there were predictions at the same time.
#[derive(Debug)]
pub(super) struct Pool {
    /// Length of each of the two buffers of values.
    values: usize,
    room: usize,
    shelf: Mutex<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    waiting: Vec<Scratch>,
    /// Those that wait and those in use.
    made: usize,
}

impl Pool {
    pub(super) fn new(values: usize, room: usize) -> Self {
        Self { values, room, shelf: Mutex::default() }
    }

    pub(super) fn take(&self) -> Scratch {
        {
            let mut shelf = self.shelf.locked();
            if let Some(scratch) = shelf.waiting.pop() {
                return scratch;
            }
            // All will fit when they come back, whichever comes last.
            shelf.made += 1;
            let made = shelf.made;
            shelf.waiting.reserve(made);
        }
        let values = || vec![0.0; self.values];
        Scratch { values: [values(), values()], room: vec![0.0; self.room] }
    }

    pub(super) fn put_back(&self, scratch: Scratch) {
        self.shelf.locked().waiting.push(scratch);
    }
}
