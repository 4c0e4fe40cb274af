//! How new a released model must be.

/// How new a model must be that an app asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Enum)]
pub enum Freshness {
    /// The newest one: the call downloads it first. Without a network it is the one that is here.
    Latest,
    /// The one that is here, without a network.
    Local,
    /// The one that is here, at once; the next session or update gets the newest one.
    LocalThenUpdate,
}

impl From<Freshness> for tributary_client::Freshness {
    fn from(freshness: Freshness) -> Self {
        match freshness {
            Freshness::Latest => Self::Latest,
            Freshness::Local => Self::Local,
            Freshness::LocalThenUpdate => Self::LocalThenUpdate,
        }
    }
}
