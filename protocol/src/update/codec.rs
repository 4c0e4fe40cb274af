//! The list of codecs: names, settings and properties.
//!
//! A job file chooses one: `codec = "int8"`, or with settings `codec = { name = "qsgd", levels = 4 }`.
//!
//! | name | what is sent | unbiased | state on the device |
//! |---|---|---|---|
//! | `f32` | the values | exact | |
//! | `f16`, `bf16` | the values in 16 bits | nearly | |
//! | `int8`, `int4` | one scale per block and integers | yes | |
//! | `ternary` | one scale per section and -1, 0 or 1 (TernGrad) | yes | |
//! | `qsgd` | one norm per bucket and levels (QSGD) | yes | |
//! | `eden` | rotated values, one to four bits each (EDEN, DRIVE) | yes | |
//! | `random_k` | a few values, chosen at random and amplified | yes | |
//! | `hierarchical` | lines for blocks, and a line for their sizes (Du, Yang, Huang) | no | residual |
//! | `sign` | signs and one mean magnitude per section | no | residual |
//! | `top_k` | the largest values | no | residual |
//! | `dgc` | the largest values of a momentum (deep gradient compression) | no | residual, momentum |
//!
//! Biased codecs need error feedback: the device keeps the residual, the part of the delta that was not sent, and adds
//! it to its next delta. They suit clients that take part in most rounds. A residual that is twenty rounds old belongs
//! to a model that has moved on. `docs/codecs.md` has measurements.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::codecs::blocks::BlockSections;
use super::codecs::plain::PlainSections;
use super::codecs::{Blocks, Dgc, Eden, Hierarchical, Properties, Qsgd, RandomK, Ternary, TopK, plain, sign};
use super::frame::{SECTION_VALUES_MAX, SectionCodec};
use crate::safetensors::Dtype;

/// A codec with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "WrittenCodec")]
pub enum Codec {
    /// 32-bit values, unchanged.
    F32,
    /// IEEE 754 half precision: 11 bits of precision, magnitudes up to 65,504.
    F16,
    /// The upper half of an f32: 8 bits of precision, the range of f32.
    Bf16,
    /// 8-bit integers, one scale per block, stochastic rounding.
    Int8(Blocks),
    /// 4-bit integers, one scale per block, stochastic rounding.
    Int4(Blocks),
    /// -1, 0 or 1 times one scale per section.
    Ternary(Ternary),
    /// Levels of a norm per bucket.
    Qsgd(Qsgd),
    /// One bit per value, and error feedback.
    Sign,
    /// A few values, chosen at random.
    RandomK(RandomK),
    /// The largest values, and error feedback.
    TopK(TopK),
    /// The largest values of a momentum, and error feedback.
    Dgc(Dgc),
    /// Rotated and quantised values.
    Eden(Eden),
    /// Lines of codebooks for blocks and for their sizes, and error feedback.
    Hierarchical(Hierarchical),
}

/// `int8`: at most a quarter of the bytes of `f32`. No measured training lost accuracy or rounds to it, however often
/// clients take part (`docs/codecs.md`).
impl Default for Codec {
    fn default() -> Self {
        Self::Int8(Blocks::default())
    }
}

/// The name of a codec, as job files, metadata and check-ins write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each variant of `Codec` is documented")]
pub enum CodecName {
    F32,
    F16,
    Bf16,
    Int8,
    Int4,
    Ternary,
    Qsgd,
    Sign,
    RandomK,
    TopK,
    Dgc,
    Eden,
    Hierarchical,
}

/// A setting that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("codec {codec}: {setting} must be {allowed}")]
pub struct CodecError {
    /// The codec whose settings were checked.
    pub codec: CodecName,
    /// Name of the setting in the job file.
    pub setting: &'static str,
    /// The allowed values, in words.
    pub allowed: &'static str,
}

impl CodecName {
    /// All codecs.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Int8,
        Self::Int4,
        Self::Ternary,
        Self::Qsgd,
        Self::Sign,
        Self::RandomK,
        Self::TopK,
        Self::Dgc,
        Self::Eden,
        Self::Hierarchical,
    ];

    /// The codec with its default settings.
    pub fn with_defaults(self) -> Codec {
        match self {
            Self::F32 => Codec::F32,
            Self::F16 => Codec::F16,
            Self::Bf16 => Codec::Bf16,
            Self::Int8 => Codec::Int8(Blocks::default()),
            Self::Int4 => Codec::Int4(Blocks::default()),
            Self::Ternary => Codec::Ternary(Ternary::default()),
            Self::Qsgd => Codec::Qsgd(Qsgd::default()),
            Self::Sign => Codec::Sign,
            Self::RandomK => Codec::RandomK(RandomK::default()),
            Self::TopK => Codec::TopK(TopK::default()),
            Self::Dgc => Codec::Dgc(Dgc::default()),
            Self::Eden => Codec::Eden(Eden::default()),
            Self::Hierarchical => Codec::Hierarchical(Hierarchical::default()),
        }
    }
}

impl fmt::Display for CodecName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Codec {
    /// The name, without the settings.
    pub fn name(&self) -> CodecName {
        match self {
            Self::F32 => CodecName::F32,
            Self::F16 => CodecName::F16,
            Self::Bf16 => CodecName::Bf16,
            Self::Int8(_) => CodecName::Int8,
            Self::Int4(_) => CodecName::Int4,
            Self::Ternary(_) => CodecName::Ternary,
            Self::Qsgd(_) => CodecName::Qsgd,
            Self::Sign => CodecName::Sign,
            Self::RandomK(_) => CodecName::RandomK,
            Self::TopK(_) => CodecName::TopK,
            Self::Dgc(_) => CodecName::Dgc,
            Self::Eden(_) => CodecName::Eden,
            Self::Hierarchical(_) => CodecName::Hierarchical,
        }
    }

    /// Bias, size and error with these settings.
    pub fn properties(&self) -> Properties {
        match self {
            Self::F32 => plain::properties(32.0, Some(0.0)),
            Self::F16 => plain::properties(16.0, None),
            // Half a unit in the last place is at most 2^-8 of the value; the error is a square.
            Self::Bf16 => plain::properties(16.0, Some(1.0 / 65_536.0)),
            Self::Int8(blocks) => blocks.properties(8),
            Self::Int4(blocks) => blocks.properties(4),
            Self::Ternary(ternary) => ternary.properties(),
            Self::Qsgd(qsgd) => qsgd.properties(),
            Self::Sign => sign::properties(),
            Self::RandomK(random_k) => random_k.properties(),
            Self::TopK(top_k) => top_k.properties(),
            Self::Dgc(dgc) => dgc.properties(),
            Self::Eden(eden) => eden.properties(),
            Self::Hierarchical(hierarchical) => hierarchical.properties(),
        }
    }

    /// Checks that the settings are in range.
    ///
    /// # Errors
    /// [`CodecError`] names the first setting that is not.
    pub fn check(&self) -> Result<(), CodecError> {
        let checked = match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::Sign => Ok(()),
            Self::Int8(blocks) | Self::Int4(blocks) => blocks.check(),
            Self::Ternary(ternary) => ternary.check(),
            Self::Qsgd(qsgd) => qsgd.check(),
            Self::RandomK(random_k) => random_k.check(),
            Self::TopK(top_k) => top_k.check(),
            Self::Dgc(dgc) => dgc.check(),
            Self::Eden(eden) => eden.check(),
            Self::Hierarchical(hierarchical) => hierarchical.check(),
        };
        checked.map_err(|(setting, allowed)| CodecError { codec: self.name(), setting, allowed })
    }

    /// The type of the values, for codecs that write one tensor per parameter.
    pub(super) fn plain_dtype(self) -> Option<Dtype> {
        match self {
            Self::F32 => Some(Dtype::F32),
            Self::F16 => Some(Dtype::F16),
            Self::Bf16 => Some(Dtype::Bf16),
            _ => None,
        }
    }

    /// Whether every value takes a number of bits that the settings fix, at least four. The length of such a body
    /// bounds the work of decoding it. A few bytes of the other codecs may stand for 2^18 values.
    pub fn is_fixed_width(&self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::Int8(_) | Self::Int4(_))
    }

    /// The server's half, for codecs that write a frame of sections.
    pub(super) fn sections(self) -> Option<Box<dyn SectionCodec>> {
        Some(match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::Int8(_) | Self::Int4(_) => return None,
            Self::Ternary(ternary) => Box::new(ternary),
            Self::Qsgd(qsgd) => Box::new(qsgd),
            Self::Sign => Box::new(sign::Sign),
            Self::RandomK(random_k) => Box::new(random_k),
            Self::TopK(top_k) => Box::new(top_k),
            Self::Dgc(dgc) => Box::new(dgc),
            Self::Eden(eden) => Box::new(eden),
            Self::Hierarchical(hierarchical) => Box::new(hierarchical),
        })
    }

    /// How the sections of a shard are decoded, which also codecs have that write tensors, and most values of one.
    pub(super) fn shard_sections(self) -> (Box<dyn SectionCodec>, usize) {
        // A section begins with a block.
        let whole = |blocks: Blocks| SECTION_VALUES_MAX / usize::from(blocks.block) * usize::from(blocks.block);
        match (self.plain_dtype(), self) {
            (Some(dtype), _) => (Box::new(PlainSections(dtype)), SECTION_VALUES_MAX),
            (None, Self::Int8(blocks)) => (Box::new(BlockSections { bits: 8, blocks }), whole(blocks)),
            (None, Self::Int4(blocks)) => (Box::new(BlockSections { bits: 4, blocks }), whole(blocks)),
            (None, codec) => (codec.sections().expect("every other codec writes sections"), SECTION_VALUES_MAX),
        }
    }
}

/// The text in an update's metadata: the name alone with default settings, else a JSON table of name and settings.
impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == self.name().with_defaults() {
            return self.name().fmt(f);
        }
        let text = serde_json::to_string(&Tagged::from(*self)).expect("names and finite numbers are always JSON");
        f.write_str(&text)
    }
}

/// How updates are encoded: the name of a codec, or a table of its name and settings.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Codec))]
#[serde(untagged)]
pub(crate) enum WrittenCodec {
    Name(CodecName),
    Table(Tagged),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "name", rename_all = "snake_case")]
pub(crate) enum Tagged {
    F32(NoSettings),
    F16(NoSettings),
    Bf16(NoSettings),
    Int8(Blocks),
    Int4(Blocks),
    Ternary(Ternary),
    Qsgd(Qsgd),
    Sign(NoSettings),
    RandomK(RandomK),
    TopK(TopK),
    Dgc(Dgc),
    Eden(Eden),
    Hierarchical(Hierarchical),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NoSettings {}

impl From<Codec> for Tagged {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::F32 => Self::F32(NoSettings {}),
            Codec::F16 => Self::F16(NoSettings {}),
            Codec::Bf16 => Self::Bf16(NoSettings {}),
            Codec::Int8(blocks) => Self::Int8(blocks),
            Codec::Int4(blocks) => Self::Int4(blocks),
            Codec::Ternary(ternary) => Self::Ternary(ternary),
            Codec::Qsgd(qsgd) => Self::Qsgd(qsgd),
            Codec::Sign => Self::Sign(NoSettings {}),
            Codec::RandomK(random_k) => Self::RandomK(random_k),
            Codec::TopK(top_k) => Self::TopK(top_k),
            Codec::Dgc(dgc) => Self::Dgc(dgc),
            Codec::Eden(eden) => Self::Eden(eden),
            Codec::Hierarchical(hierarchical) => Self::Hierarchical(hierarchical),
        }
    }
}

impl From<Tagged> for Codec {
    fn from(tagged: Tagged) -> Self {
        match tagged {
            Tagged::F32(_) => Self::F32,
            Tagged::F16(_) => Self::F16,
            Tagged::Bf16(_) => Self::Bf16,
            Tagged::Int8(blocks) => Self::Int8(blocks),
            Tagged::Int4(blocks) => Self::Int4(blocks),
            Tagged::Ternary(ternary) => Self::Ternary(ternary),
            Tagged::Qsgd(qsgd) => Self::Qsgd(qsgd),
            Tagged::Sign(_) => Self::Sign,
            Tagged::RandomK(random_k) => Self::RandomK(random_k),
            Tagged::TopK(top_k) => Self::TopK(top_k),
            Tagged::Dgc(dgc) => Self::Dgc(dgc),
            Tagged::Eden(eden) => Self::Eden(eden),
            Tagged::Hierarchical(hierarchical) => Self::Hierarchical(hierarchical),
        }
    }
}

impl From<Codec> for WrittenCodec {
    fn from(codec: Codec) -> Self {
        match codec == codec.name().with_defaults() {
            true => Self::Name(codec.name()),
            false => Self::Table(codec.into()),
        }
    }
}

/// Reads a name or a table. An untagged enum of serde would only report that neither variant matched; this
/// implementation names the wrong key or value.
impl<'de> Deserialize<'de> for Codec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Codec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a codec's name, or a table with its name and settings")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Codec, E> {
                CodecName::deserialize(name.into_deserializer()).map(CodecName::with_defaults)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Codec, A::Error> {
                let codec: Codec = Tagged::deserialize(MapAccessDeserializer::new(table))?.into();
                codec.check().map_err(de::Error::custom)?;
                Ok(codec)
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_called_the_same_everywhere() {
        for name in CodecName::ALL {
            let codec = name.with_defaults();
            assert_eq!(codec.name(), name);
            assert_eq!(codec.check(), Ok(()));
            assert_eq!(codec.to_string(), name.to_string());
            assert_eq!(serde_json::to_string(&codec).unwrap(), format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<Codec>(&format!("{{\"name\":\"{name}\"}}")).unwrap(), codec);
        }
    }

    #[test]
    fn settings_are_part_of_the_codec() {
        let codec: Codec = serde_json::from_str(r#"{"name":"int8","block":128}"#).unwrap();
        assert_eq!(codec, Codec::Int8(Blocks { block: 128 }));
        assert_eq!(serde_json::from_str::<Codec>(&serde_json::to_string(&codec).unwrap()).unwrap(), codec);
        assert_eq!(codec.to_string(), r#"{"name":"int8","block":128}"#);
    }

    #[test]
    fn an_unknown_codec_or_setting_is_refused() {
        let cases = [
            (r#""int7""#, "unknown variant `int7`, expected one of `f32`"),
            (r#"{"name":"int7"}"#, "unknown variant `int7`"),
            (r#"{"name":"int8","blocks":64}"#, "unknown field `blocks`, expected `block`"),
            (r#"{"name":"f32","block":64}"#, "unknown field `block`"),
            (r#"{"block":64}"#, "missing field `name`"),
            (r#"{"name":"int8","block":"64"}"#, "expected u16"),
            (r#"{"name":"int8","block":65}"#, "codec int8: block must be a multiple of 8 from 8 to 4096"),
            ("8", "a codec's name, or a table with its name and settings"),
        ];
        for (text, why) in cases {
            let error = serde_json::from_str::<Codec>(text).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
