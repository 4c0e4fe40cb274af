//! OpenAPI schemas of the types whose serialised form differs from their fields.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::device::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, Attributes};
use crate::hash::Sha256Hash;
use crate::id::{AssignmentId, ClientId, GroupId, JobId, Name, PinnedSecret, ReleaseId, Secret, TokenId};
use crate::inputs::Inputs;
use crate::job_model::JobModel;
use crate::layers::{HeightWidth, Layer, Padding};
use crate::model::ParameterSpec;
use crate::problem::ProblemType;
use crate::scalars::{SCALARS_MAX, ScalarName as MetricName, Scalars as Metrics};
use crate::update::Codec;

/// Names and schemas of the types that a schema refers to.
type References = Vec<(String, RefOr<Schema>)>;

macro_rules! written_as {
    ($($type:ident: $schema:expr;)*) => {
        $(impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                let schema: Schema = $schema.into();
                schema.into()
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($type))
            }
        })*
    };
}

written_as! {
    ClientId: id("client", "Id of a client: an enrolled device or silo.");
    JobId: id("job", "Id of a job.");
    AssignmentId: id("assignment", "Id of an assignment: the work of one client in one round.");
    GroupId: id("group", "Id of a group, whose members' updates are summed under masks.");
    ReleaseId: id("release", "Id of a release of a model to the apps of a population.");
    TokenId: id("token", "Id of an operator token or enrolment token; it is not a credential.");
    Name: text("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "The name of a population, a job, a coordinator or an account.");
    PinnedSecret: text("^tributary_(operator|enrolment|client)_[0-9a-f]{64}(_ca_[0-9a-f]{64})?$", "A secret as people copy it. The bearer credential is its first part. An enrolment secret may be followed by the SHA-256 of the coordinator's private CA: clients accept only certificates of this CA.");
    Secret: text("^tributary_(operator|enrolment|client)_[0-9a-f]{64}$", "A bearer credential. Its prefix names its kind.");
    Sha256Hash: text("^[0-9a-f]{64}$", "A SHA-256 in lower-case hexadecimal digits.");
    Attributes: ObjectBuilder::new()
        .description(Some(format!("Attributes of a client, as names and values: at most {ATTRIBUTES_MAX} pairs.")))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(ATTRIBUTE_BYTES_MAX))
                .build()
                .into(),
        ))))
        .max_properties(Some(ATTRIBUTES_MAX))
        .build();
    // The document calls scalars what the wire calls them.
    MetricName: text("^[a-z0-9_.-]{1,64}$", "Name of a metric; not `accuracy`, `examples` or `loss`.");
    Metrics: ObjectBuilder::new()
        .description(Some(format!("Named scalars of a report: at most {SCALARS_MAX} finite numbers, at most 1e12 in magnitude.")))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(
            ObjectBuilder::new().schema_type(Type::Number).build().into(),
        ))))
        .max_properties(Some(SCALARS_MAX))
        .build();
    HeightWidth: number_or_pair("A height and a width, as a pair or as one number for both.").build();
    Padding: number_or_pair("Zeros around the input: a word, a number or a pair [height, width].")
        .item(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["valid", "same"])))
        .build();
    ProblemType: ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("The kind of error, for programs."))
        .enum_values(Some(ProblemType::ALL.iter().map(|kind| kind.uri())))
        .build();
    Codec: OneOfBuilder::new()
        .description(Some("The codec of updates: a name, or a table of a name and settings."))
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(
            ObjectBuilder::new()
                .property("name", ObjectBuilder::new().schema_type(Type::String))
                .required("name")
                .additional_properties(Some(AdditionalProperties::FreeForm(true))),
        )
        .build();
}

impl PartialSchema for JobModel {
    fn schema() -> RefOr<Schema> {
        let list = |item: &str| ArrayBuilder::new().items(Ref::from_schema_name(item));
        let shape = ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)));
        let patterns = |description: &str| {
            let name = ObjectBuilder::new().schema_type(Type::String);
            ArrayBuilder::new().items(name).description(Some(description))
        };
        let with_lists = |table: ObjectBuilder| {
            let license = ObjectBuilder::new().schema_type(Type::String);
            table
                .property("shared", patterns("Parameters that clients train together, as names with stars."))
                .property("frozen", patterns("Parameters that nobody changes."))
                .property("personal", patterns("Parameters that never leave a device."))
                .property("inputs", Ref::from_schema_name("Inputs"))
                .property("license", license.description(Some("The terms under which the model may be used.")))
                .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        };
        let layers = with_lists(
            ObjectBuilder::new()
                .property("input", shape)
                .required("input")
                .property("layers", list("Layer"))
                .required("layers"),
        );
        let parameters =
            with_lists(ObjectBuilder::new().property("parameters", list("ParameterSpec")).required("parameters"));
        let description = "The network as layers, or the names and shapes of the parameters of an app's own network.";
        let schema: Schema =
            OneOfBuilder::new().description(Some(description)).item(layers).item(parameters).build().into();
        schema.into()
    }
}

impl ToSchema for JobModel {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JobModel")
    }

    fn schemas(schemas: &mut References) {
        schemas.push((Layer::name().into_owned(), Layer::schema()));
        Layer::schemas(schemas);
        schemas.push((ParameterSpec::name().into_owned(), ParameterSpec::schema()));
        ParameterSpec::schemas(schemas);
        schemas.push((Inputs::name().into_owned(), Inputs::schema()));
        Inputs::schemas(schemas);
    }
}

fn id(prefix: &str, description: &str) -> Schema {
    text(&format!("^{prefix}_[0-9a-f]{{32}}$"), description)
}

fn text(pattern: &str, description: &str) -> Schema {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).description(Some(description));
    text.build().into()
}

fn number_or_pair(description: &str) -> OneOfBuilder {
    let number = || ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer)).minimum(Some(0));
    let pair = ArrayBuilder::new().items(number()).min_items(Some(2)).max_items(Some(2));
    OneOfBuilder::new().description(Some(description)).item(number()).item(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_is_written() {
        for (id, prefix) in [
            (ClientId::from_random([0xab; 16]).to_string(), "client_"),
            (TokenId::from_random([0xab; 16]).to_string(), "token_"),
        ] {
            assert_eq!(id.len(), prefix.len() + 32);
        }
        let phases = serde_json::to_value(crate::state::Phase::schema()).unwrap();
        assert_eq!(phases["enum"][0], "selecting");
        assert_eq!(phases["description"], "The phase of a round. A round moves down this list, never up.");
        let json = serde_json::to_value(JobId::schema()).unwrap();
        assert_eq!(json["pattern"], "^job_[0-9a-f]{32}$");
    }
}
