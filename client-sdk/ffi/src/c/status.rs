//! Results of calls, and the text of the last error of a thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::types::Grows;
use crate::errors::TributaryError;

/// How a call or a callback ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TributaryStatus {
    /// It succeeded.
    Ok = 0,
    /// An argument is null or cannot be used.
    BadInput = 1,
    /// The coordinator does not answer. The next session may succeed.
    Unreachable = 2,
    /// The coordinator refused a request, or its answer cannot be used.
    Refused = 3,
    /// The client runs a session in another thread.
    Busy = 4,
    /// The client's folder or key cannot be used.
    State = 5,
    /// There is nothing to learn from. A trainer may return it.
    NoExamples = 6,
    /// The loss or a weight is not finite. A trainer may return it.
    Diverged = 7,
    /// Examples, labels and model do not fit each other. A trainer may return it.
    DoesNotFit = 8,
    /// The trainer failed otherwise. A trainer may return it.
    Training = 9,
    /// `tributary_should_stop` said so. Only a trainer returns it.
    Interrupted = 10,
    /// A fault of the SDK.
    Internal = 11,
    /// The server's certificate is not one that the client trusts for its name.
    Untrusted = 12,
    /// The job is weaker than what the settings demand. Nothing was sent but this reason.
    Privacy = 13,
}

/// The statuses with their names.
const NAMES: [(TributaryStatus, &CStr); 14] = [
    (TributaryStatus::Ok, c"ok"),
    (TributaryStatus::BadInput, c"bad input"),
    (TributaryStatus::Unreachable, c"unreachable"),
    (TributaryStatus::Refused, c"refused"),
    (TributaryStatus::Busy, c"busy"),
    (TributaryStatus::State, c"state"),
    (TributaryStatus::NoExamples, c"no examples"),
    (TributaryStatus::Diverged, c"diverged"),
    (TributaryStatus::DoesNotFit, c"does not fit"),
    (TributaryStatus::Training, c"training"),
    (TributaryStatus::Interrupted, c"interrupted"),
    (TributaryStatus::Internal, c"internal"),
    (TributaryStatus::Untrusted, c"untrusted"),
    (TributaryStatus::Privacy, c"privacy"),
];

/// The name of a status in a log, such as `unreachable`. For a number that is no status it is `unknown`.
#[unsafe(no_mangle)]
pub extern "C" fn tributary_status_name(status: i32) -> *const c_char {
    let named = NAMES.iter().find(|(named, _)| *named as i32 == status);
    named.map_or(c"unknown", |(_, name)| name).as_ptr()
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    static TEXT: RefCell<CString> = RefCell::default();
    static WAITS_FOR: RefCell<CString> = RefCell::default();
}

/// Why the last call of this thread that did not return `TRIBUTARY_STATUS_OK` failed. Valid until the next such call.
#[unsafe(no_mangle)]
pub extern "C" fn tributary_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// What the client of this thread's last session waits for, as JSON; empty if the session did not end with
/// `TRIBUTARY_OUTCOME_KIND_NOTHING_TO_DO`, or if the coordinator did not say. Valid until this thread's next session.
#[unsafe(no_mangle)]
pub extern "C" fn tributary_waits_for() -> *const c_char {
    WAITS_FOR.with_borrow(|text| text.as_ptr())
}

pub(super) fn set_waits_for(text: &str) {
    WAITS_FOR.with_borrow_mut(|kept| *kept = c_text(text));
}

/// A text for C, with spaces for zeros.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Gives C a text that lives until the thread's next call of this kind.
///
/// # Safety
/// `out` is null or may be written.
pub(super) unsafe fn give_text(
    out: *mut *const c_char,
    make: impl FnOnce() -> Result<String, TributaryError>,
) -> Result<(), TributaryError> {
    if out.is_null() {
        return Err(TributaryError::bad_input("the place for the result is null"));
    }
    let text = c_text(&make()?);
    let kept = TEXT.with_borrow_mut(|kept| {
        *kept = text;
        kept.as_ptr()
    });
    // SAFETY: it is not null, and the caller says that it may be written.
    unsafe { out.write(kept) };
    Ok(())
}

/// Version of the binary interface, as `TRIBUTARY_ABI_VERSION` in the header: it changes if an app must be compiled
/// again.
pub const ABI_VERSION: u32 = 1;

/// The `TRIBUTARY_ABI_VERSION` of this library. An app compares it with that of its header.
#[unsafe(no_mangle)]
pub extern "C" fn tributary_abi_version() -> u32 {
    ABI_VERSION
}

/// Runs a call. An error or a panic becomes a status and a text.
pub(super) fn call(work: impl FnOnce() -> Result<(), TributaryError>) -> TributaryStatus {
    let (status, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return TributaryStatus::Ok,
        Ok(Err(error)) => (of(&error), error.to_string()),
        Err(_) => (TributaryStatus::Internal, "the SDK panicked; this is a fault of it".to_owned()),
    };
    let text = c_text(&text);
    LAST.with_borrow_mut(|last| *last = text);
    status
}

fn of(error: &TributaryError) -> TributaryStatus {
    match error {
        TributaryError::BadInput { .. } => TributaryStatus::BadInput,
        TributaryError::Unreachable { .. } => TributaryStatus::Unreachable,
        TributaryError::Untrusted { .. } => TributaryStatus::Untrusted,
        TributaryError::Refused { .. } => TributaryStatus::Refused,
        TributaryError::Privacy { .. } => TributaryStatus::Privacy,
        TributaryError::Busy { .. } => TributaryStatus::Busy,
        TributaryError::State { .. } => TributaryStatus::State,
        TributaryError::NoExamples { .. } => TributaryStatus::NoExamples,
        TributaryError::Diverged { .. } => TributaryStatus::Diverged,
        TributaryError::DoesNotFit { .. } => TributaryStatus::DoesNotFit,
        TributaryError::Training { .. } => TributaryStatus::Training,
    }
}

/// A text of C, in UTF-8.
///
/// # Safety
/// It is null or ends with a zero.
pub(super) unsafe fn text(name: &str, text: *const c_char) -> Result<String, TributaryError> {
    if text.is_null() {
        return Err(TributaryError::bad_input(format!("{name} is null")));
    }
    // SAFETY: it is not null, and the caller says that it ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(text.to_str().map_err(|_| TributaryError::bad_input(format!("{name} is not UTF-8")))?.to_owned())
}

/// Values of C.
///
/// # Safety
/// It is null or points to `count` values that nobody changes meanwhile.
pub(super) unsafe fn values<'a, T>(name: &str, values: *const T, count: usize) -> Result<&'a [T], TributaryError> {
    if count == 0 {
        return Ok(&[]);
    }
    if values.is_null() {
        return Err(TributaryError::bad_input(format!("{name} is null")));
    }
    if !values.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(TributaryError::bad_input(format!("{name} is no array of {count} values")));
    }
    // SAFETY: it is aligned, not null and not too long, and the caller says that the values are there.
    Ok(unsafe { std::slice::from_raw_parts(values, count) })
}

/// A structure that an app fills in, as this release has it: members that the app's header lacks are zero, and those of
/// a later header are left out.
///
/// # Safety
/// It is null or points to as many bytes as its first member says.
pub(super) unsafe fn sized<T: Grows>(name: &str, value: *const T) -> Result<T, TributaryError> {
    // SAFETY: as the caller says, at least the first member is there.
    let size = *unsafe { there(name, value.cast::<usize>()) }?;
    if size <= size_of::<usize>() || !value.is_aligned() {
        return Err(TributaryError::bad_input(format!("{name}.size is {size}: it must be the sizeof of its type")));
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: both sides have so many bytes, and `copy` is not what the app gave.
    unsafe { value.cast::<u8>().copy_to_nonoverlapping(copy.as_mut_ptr().cast(), size.min(size_of::<T>())) };
    // SAFETY: zeros are a value of each member, and the app filled in the others.
    Ok(unsafe { copy.assume_init() })
}

/// Fills in a structure of an app, whose first member says how much of it the app's header has.
///
/// # Safety
/// It is null or points to as many bytes as its first member says.
pub(super) unsafe fn fill_in<T: Grows>(name: &str, out: *mut T, value: T) -> Result<(), TributaryError> {
    // SAFETY: as the caller says, at least the first member is there.
    let size = *unsafe { there(name, out.cast_const().cast::<usize>()) }?;
    if size <= size_of::<usize>() || !out.is_aligned() {
        return Err(TributaryError::bad_input(format!("{name}.size is {size}: it must be the sizeof of its type")));
    }
    let (members, first) = (size.min(size_of::<T>()) - size_of::<usize>(), size_of::<usize>());
    // SAFETY: both sides have so many bytes after the first member, which stays.
    unsafe { (&raw const value).cast::<u8>().add(first).copy_to_nonoverlapping(out.cast::<u8>().add(first), members) };
    Ok(())
}

/// What a pointer of C points to.
///
/// # Safety
/// It is null or points to a value that lives as long as the call.
pub(super) unsafe fn there<'a, T>(name: &str, value: *const T) -> Result<&'a T, TributaryError> {
    if !value.is_aligned() {
        return Err(TributaryError::bad_input(format!("{name} is no pointer to its type")));
    }
    // SAFETY: it is aligned, and the caller says that the value is there if it is not null.
    unsafe { value.as_ref() }.ok_or_else(|| TributaryError::bad_input(format!("{name} is null")))
}
