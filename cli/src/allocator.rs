//! The allocator of a coordinator. A client keeps that of its system, which takes less memory for itself.

/// Most pages of the buffers of ten thousand held connections are never touched. This allocator keeps blocks of equal
/// size together, so that such pages stay with the system (`tributary-bench load` prints the memory per held client).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How soon the allocator of a coordinator returns freed memory to the system. Its default of a second lets several MB
/// of received chunks pile up per sending client; 0 costs a twelfth more processor time per large update.
const PURGE_DELAY_MS: std::ffi::c_long = 10;
/// A client returns it at once: it frees models of several MB, but few of them, and buffers of a training are made
/// once. Otherwise what it has freed stays until it frees again, which may be a whole training later
/// (docs/benchmarks.md).
const CLIENT_PURGE_DELAY_MS: std::ffi::c_long = 0;
/// The option's number in mimalloc's `mi_option_t`, unchanged since version 1.
const PURGE_DELAY_OPTION: std::ffi::c_int = 15;

/// Must be called before other threads start.
pub fn set_up(is_client: bool) {
    let delay_ms = if is_client { CLIENT_PURGE_DELAY_MS } else { PURGE_DELAY_MS };
    #[expect(unsafe_code, reason = "the crate has no safe function for this option; no other thread runs yet")]
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY_OPTION, delay_ms);
    }
}

/// Returns freed memory to the system now, so that a benchmark measures what is held.
pub fn return_freed() {
    #[expect(unsafe_code, reason = "the crate has no safe function for this; it may be called at any time")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
