//! Settings that are a number or a table.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// Reads a number or a table. An untagged enum of serde would only report that neither variant matched; this names the
/// wrong key or value. `expected` continues the sentence "expected ..".
pub(super) fn number_or_table<'de, D: Deserializer<'de>, T: Deserialize<'de>, V>(
    deserializer: D,
    expected: &'static str,
    number: fn(f64) -> V,
    table: fn(T) -> V,
) -> Result<V, D::Error> {
    deserializer.deserialize_any(NumberOrTable { expected, number, table, reads: PhantomData })
}

struct NumberOrTable<T, V> {
    expected: &'static str,
    number: fn(f64) -> V,
    table: fn(T) -> V,
    reads: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, V> Visitor<'de> for NumberOrTable<T, V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<V, E> {
        Ok((self.number)(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<V, E> {
        Ok((self.number)(number as f64))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<V, E> {
        Ok((self.number)(number as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<V, A::Error> {
        T::deserialize(MapAccessDeserializer::new(table)).map(self.table)
    }
}
