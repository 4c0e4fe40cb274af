//! What the SDK takes from the machine when the app brings nothing of its own. Two rooms have the same doors: `native`,
//! an operating system (the feature `native`), and `bare`, where there is none, as in a browser.

#[cfg(not(feature = "native"))]
mod bare;
#[cfg(feature = "native")]
mod native;

#[cfg(not(feature = "native"))]
pub(crate) use self::bare::{
    Background, computing, default_clock, default_keys, default_store, default_transport, is_exposed, is_url, rest,
    signing, within,
};
#[cfg(feature = "native")]
pub(crate) use self::native::{
    Background, computing, default_clock, default_keys, default_store, default_transport, is_exposed, is_url, rest,
    signing, within,
};
