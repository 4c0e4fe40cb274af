//! The SDK in a browser: what `package/worker.js` calls.
//!
//! The SDK's futures may move between threads, and those of a browser stay on theirs. So what only the browser can do
//! (requests, entries of its database, timers) goes to it as an errand (`errands`), and the answers come back through
//! channels.
//!
//! | module | what it is |
//! |---|---|
//! | `client` | the class that JavaScript sees |
//! | `model` | models that predict, as JavaScript sees them |
//! | `errands` | what the SDK asks of the browser, and the task that does it |
//! | `transport`, `store`, `clock` | the SDK's traits, as errands |
//! | `training` | the trainer of layers, on the CPU or the GPU, which reports its progress |
//! | `table` | the rows from which a page answers analyses |
//! | `gpu` | the GPU as the trainer uses it, as errands |
//! | `script` | what the worker's script gives |
//! | `outcome` | results and errors as JavaScript sees them |

#![cfg(target_arch = "wasm32")]

mod client;
mod clock;
mod errands;
mod gpu;
mod model;
mod outcome;
mod script;
mod store;
mod table;
mod training;
mod transport;

pub use client::BrowserClient;
pub use model::BrowserModel;
