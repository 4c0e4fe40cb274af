//! The OpenAPI document, composed of the types that the handlers take and return.
//!
//! Each API lists its calls in its own `document.rs`, one line per route. The parts that all calls share (path
//! parameters, bearer tokens, problem documents) are added here.

use std::collections::BTreeMap;

use serde_json::Value;
use tributary_protocol::id::{AssignmentId, ClientId, GroupId, JobId, Name, ReleaseId, TokenId};
use tributary_protocol::problem::{CONTENT_TYPE, Problem, ProblemType};
use tributary_protocol::state::Role;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathsBuilder,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{
    ArrayBuilder, ComponentsBuilder, KnownFormat, ObjectBuilder, Ref, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Content, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, RefOr, Required, Response, ResponseBuilder,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::examples::{self, Example};

pub(super) const BYTES: &str = "application/octet-stream";
const JSON: &str = "application/json";
/// The security scheme of a browser's session.
const SESSION: &str = "session";

/// The token that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearer {
    Operator,
    /// An app's, to enrol clients.
    Enrolment,
    /// The client's own.
    Client,
    /// None: the call gives a credential.
    Nobody,
}

impl Bearer {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Operator, "An operator token: tributary_operator_.."),
        (Self::Enrolment, "An enrolment token of a population: tributary_enrolment_.."),
        (
            Self::Client,
            "The secret of an enrolled client: tributary_client_.. With --client-auth, its certificate instead.",
        ),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Enrolment => "enrolment",
            Self::Client => "client",
            Self::Nobody => "nobody",
        }
    }
}

pub(super) struct Call {
    method: HttpMethod,
    role: Role,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<RequestBody>,
    responses: Vec<(String, Response)>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

macro_rules! methods {
    ($($name:ident: $method:ident;)*) => {
        $(pub(super) fn $name(path: &'static str, id: &'static str, summary: &'static str) -> Call {
            Call::new(HttpMethod::$method, path, id, summary)
        })*
    };
}

methods! {
    get: Get;
    put: Put;
    post: Post;
    patch: Patch;
    head: Head;
    delete: Delete;
}

impl Call {
    fn new(method: HttpMethod, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        let role = if matches!(method, HttpMethod::Get | HttpMethod::Head) { Role::Viewer } else { Role::Operator };
        let mut call = Self {
            method,
            role,
            path,
            id,
            summary,
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            schemas: Vec::new(),
        };
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            let parameter = path_parameter(path, name);
            call.parameters.push(parameter);
        }
        call
    }

    /// The lowest role that may make the call. Otherwise calls that change nothing are for viewers, and all others for
    /// operators.
    pub(super) fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    pub(super) fn query<T: IntoParams>(mut self) -> Self {
        self.parameters.extend(T::into_params(|| Some(ParameterIn::Query)));
        self
    }

    pub(super) fn header(mut self, name: &str, description: &str) -> Self {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let header = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Header).required(Required::False);
        self.parameters.push(header.description(Some(description)).schema(Some(text)).build());
        self
    }

    pub(super) fn takes<T: ToSchema>(self) -> Self {
        self.takes_also::<T>(JSON)
    }

    /// Adds another media type of the request body; the only one after no [`Self::takes`].
    pub(super) fn takes_also<T: ToSchema>(mut self, kind: &str) -> Self {
        let schema = self.reference::<T>();
        self.with_body(kind, schema)
    }

    pub(super) fn takes_raw(self, kind: &str) -> Self {
        self.with_body(kind, raw(kind))
    }

    fn with_body(mut self, kind: &str, schema: RefOr<Schema>) -> Self {
        let body = self.body.take().map_or_else(RequestBodyBuilder::new, RequestBodyBuilder::from);
        let content = ContentBuilder::new().schema(Some(schema)).build();
        self.body = Some(body.required(Some(Required::True)).content(kind, content).build());
        self
    }

    pub(super) fn answers<T: ToSchema>(mut self, status: u16, description: &str) -> Self {
        let schema = self.reference::<T>();
        self.with_answer(status, description, "application/json", schema)
    }

    pub(super) fn list<T: ToSchema>(mut self, description: &str) -> Self {
        let items = ArrayBuilder::new().items(self.reference::<T>()).build();
        self.with_answer(200, description, "application/json", Schema::from(items).into())
    }

    pub(super) fn page<T: ToSchema>(mut self, description: &str) -> Self {
        let next = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("What to send as `after` for the next page; left out at the end."));
        let page = ObjectBuilder::new()
            .property("items", ArrayBuilder::new().items(self.reference::<T>()))
            .required("items")
            .property("next", next)
            .build();
        self.with_answer(200, description, "application/json", Schema::from(page).into())
    }

    pub(super) fn answers_raw(self, status: u16, description: &str, kind: &str) -> Self {
        self.with_answer(status, description, kind, raw(kind))
    }

    pub(super) fn nothing(mut self, status: u16, description: &str) -> Self {
        self.responses.push((status.to_string(), Response::new(description)));
        self
    }

    fn with_answer(mut self, status: u16, description: &str, kind: &str, schema: RefOr<Schema>) -> Self {
        let (status, content) = (status.to_string(), ContentBuilder::new().schema(Some(schema)).build());
        let known = self.responses.iter().position(|(known, _)| *known == status);
        let response = match known {
            Some(index) => ResponseBuilder::from(self.responses.swap_remove(index).1),
            None => ResponseBuilder::new().description(description),
        };
        self.responses.push((status, response.content(kind, content).build()));
        self
    }

    /// Adds a type to the components that answers or parameters refer to.
    pub(super) fn knows<T: ToSchema>(mut self) -> Self {
        let _ = self.reference::<T>();
        self
    }

    fn reference<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let name = T::name();
        self.schemas.push((name.to_string(), T::schema()));
        T::schemas(&mut self.schemas);
        Ref::from_schema_name(name).into()
    }

    fn operation(self, tag: &str, bearer: Bearer) -> Operation {
        let Example { request, mut answers } = examples::of(self.id);
        let mut operation = OperationBuilder::new()
            .tag(tag)
            .operation_id(Some(self.id))
            .summary(Some(self.summary))
            .parameters(Some(self.parameters))
            .request_body(self.body.map(|mut body| {
                shows(body.content.get_mut(JSON), request);
                body
            }))
            .securities(Some(security(bearer, self.role)));
        for (status, mut response) in self.responses {
            shows(response.content.get_mut(JSON), answers.remove(&status));
            operation = operation.response(status, response);
        }
        operation.response("default", problem()).build()
    }
}

fn shows(content: Option<&mut RefOr<Content>>, example: Option<Value>) {
    if let Some(RefOr::T(content)) = content {
        content.example = example;
    }
}

/// The credentials of which a call needs one, with the role that an operator's needs.
fn security(bearer: Bearer, role: Role) -> Vec<SecurityRequirement> {
    match bearer {
        Bearer::Nobody => Vec::new(),
        Bearer::Operator => {
            [bearer.name(), SESSION].map(|scheme| SecurityRequirement::new(scheme, [role.as_str()])).into()
        }
        Bearer::Enrolment | Bearer::Client => vec![SecurityRequirement::new(bearer.name(), Vec::<String>::new())],
    }
}

fn raw(kind: &str) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let text = if kind == BYTES { text.format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))) } else { text };
    Schema::from(text.build()).into()
}

fn path_parameter(path: &str, name: &str) -> Parameter {
    let (schema, description) = match name {
        "job" => (JobId::schema(), "The job's id."),
        "token" => (TokenId::schema(), "The token's id."),
        "client" => (ClientId::schema(), "The client's id."),
        "assignment" => (AssignmentId::schema(), "The assignment's id."),
        "release" => (ReleaseId::schema(), "The release's id."),
        "group" => (GroupId::schema(), "The group's id."),
        "part" => (u32::schema(), "The number of the part among those of its update, from 0."),
        "rank" => (u32::schema(), "The place in the group of the member that sends over the link, from 0."),
        "population" => (Name::schema(), "The population's name."),
        "account" => (Name::schema(), "The account's name."),
        "number" => (u32::schema(), "The round's number in its job, from 1."),
        "version" => (u32::schema(), "The model version, from 0."),
        other => unreachable!("{path}: {{{other}}} has no description"),
    };
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    parameter.description(Some(description)).schema(Some(schema)).build()
}

/// The answer for every error.
fn problem() -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    let description = "What went wrong (RFC 9457). `type` tells programs, `detail` people; `retry_after_ms` is there where \
                       a retry makes sense.";
    ResponseBuilder::new().description(description).content(CONTENT_TYPE, content).build()
}

pub(super) struct Part {
    pub(super) tag: &'static str,
    pub(super) description: &'static str,
    pub(super) prefix: &'static str,
    pub(super) calls: Vec<(Bearer, Call)>,
}

pub(super) fn document(parts: Vec<Part>) -> OpenApi {
    let mut paths = PathsBuilder::new();
    let mut items: BTreeMap<String, PathItem> = BTreeMap::new();
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    let mut tags = Vec::new();
    for part in parts {
        tags.push(TagBuilder::new().name(part.tag).description(Some(part.description)).build());
        for (bearer, mut call) in part.calls {
            schemas.append(&mut call.schemas);
            let path = format!("{}{}", part.prefix, call.path);
            let method = call.method.clone();
            let item = PathItem::new(method, call.operation(part.tag, bearer));
            match items.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => drop(items.insert(path, item)),
            }
        }
    }
    for (path, item) in items {
        paths = paths.path(path, item);
    }
    for (_, schema) in &mut schemas {
        leave_out_nulls(schema);
    }
    let mut components = ComponentsBuilder::new().schemas_from_iter(schemas);
    for (bearer, description) in Bearer::ALL {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description)).build();
        components = components.security_scheme(bearer.name(), SecurityScheme::Http(scheme));
    }
    let about = "The session of a browser, from `/operator/v1/login`. Over TLS the cookie's name begins with `__Host-`. \
                 Calls that change something also need the header `x-tributary-request`.";
    let cookie = ApiKey::Cookie(ApiKeyValue::with_description("tributary_session", about));
    components = components.security_scheme(SESSION, SecurityScheme::ApiKey(cookie));
    let kinds: Vec<&str> = ProblemType::ALL.iter().map(|kind| kind.uri()).collect();
    let description = format!(
        "Federated learning: rounds of clients that train and a coordinator that adds up. Times are milliseconds since \
         1970 (UTC). Everything that does not work is answered with a problem document of one of these types: {}.",
        kinds.join(", ")
    );
    let info =
        InfoBuilder::new().title("Tributary").version(env!("CARGO_PKG_VERSION")).description(Some(description)).build();
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).tags(Some(tags)).build()
}

/// Removes `null` from optional properties. utoipa allows each `Option` to be missing or `null`; the coordinator always
/// leaves it out.
fn leave_out_nulls(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            for (name, property) in &mut object.properties {
                if !object.required.contains(name) {
                    never_null(property);
                }
                leave_out_nulls(property);
            }
        }
        Schema::OneOf(any) => any.items.iter_mut().for_each(leave_out_nulls),
        Schema::AllOf(all) => all.items.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}

fn never_null(property: &mut RefOr<Schema>) {
    let RefOr::T(schema) = property else { return };
    match schema {
        Schema::Object(object) => without_null(&mut object.schema_type),
        Schema::Array(array) => without_null(&mut array.schema_type),
        Schema::OneOf(any) => {
            any.items.retain(|item| !matches!(item, RefOr::T(Schema::Object(object)) if is_null(&object.schema_type)));
            if let [only] = any.items.as_slice() {
                *property = only.clone();
            }
        }
        _ => {}
    }
}

fn without_null(schema_type: &mut SchemaType) {
    if let SchemaType::Array(types) = schema_type {
        types.retain(|kind| *kind != Type::Null);
        if let [only] = types.as_slice() {
            *schema_type = SchemaType::Type(only.clone());
        }
    }
}

fn is_null(schema_type: &SchemaType) -> bool {
    *schema_type == SchemaType::Type(Type::Null)
}
