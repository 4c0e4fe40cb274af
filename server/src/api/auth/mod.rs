//! Authentication. A handler gets an identity only through these extractors, and an operator's power only as a
//! [`Permit`].

mod bearer;
mod caller;
mod device;
mod operator;
mod permit;
mod session;

pub(super) use caller::{Caller, CallerCell, Origin};
pub(super) use device::{Device, DueDevice, Enroller, Identified};
pub(super) use operator::{Credential, Operator, StillIn, account_actor};
pub(super) use permit::{Administers, Permit, Power, Steers, Views};
pub(super) use session::{
    OwnPage, SESSION_MS_MAX, SESSIONS_MAX, cookie, cookie_that_ends, provider_cookie, provider_cookie_that_ends,
    value_of_provider_cookie,
};
