//! The name of the update format.

/// The value of `format` in an update's metadata. A file that an older release would misread gets another name.
pub const FORMAT: &str = "tributary-update-1";
