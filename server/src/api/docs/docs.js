// Shows /openapi.json: calls with their parameters, bodies and answers, and the types that they name.

const METHODS = ["get", "put", "post", "patch", "delete"];

/** An element with attributes and children; texts are never read as HTML. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== undefined && child !== ""));
  return element;
}

/** What a schema is, in a few words; named types are links. */
function kind(schema) {
  if (!schema) return [make("span", { class: "quiet" }, "anything")];
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [make("a", { href: `#type-${name}`, class: "type" }, name)];
  }
  const parts = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (parts) {
    const joint = schema.allOf ? " and " : " or ";
    return parts.flatMap((part, index) => (index ? [joint, ...kind(part)] : kind(part)));
  }
  if (schema.enum) return [make("code", {}, schema.enum.map((word) => JSON.stringify(word)).join(" | "))];
  const types = [schema.type ?? "anything"].flat().filter((type) => type !== "null");
  if (types[0] === "array") {
    if (schema.prefixItems) return ["[", ...schema.prefixItems.flatMap((item, index) => (index ? [", ", ...kind(item)] : kind(item))), "]"];
    return ["list of ", ...kind(schema.items)];
  }
  if (types[0] === "object" && typeof schema.additionalProperties === "object") return ["map of ", ...kind(schema.additionalProperties)];
  const limits = [schema.format, schema.pattern, schema.minimum !== undefined ? `≥ ${schema.minimum}` : undefined];
  return [make("code", {}, types.join(" | ")), make("span", { class: "quiet" }, limits.filter(Boolean).map((limit) => ` ${limit}`).join(""))];
}

function table(headings, rows) {
  const head = make("tr", {}, ...headings.map((heading) => make("th", { scope: "col" }, heading)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, ...[cell].flat()))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

/** The members of an object, or what else a schema is. */
function shape(schema) {
  const parts = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (parts?.some((part) => part.properties)) {
    const note = schema.allOf ? "All of:" : "One of:";
    return [make("p", { class: "quiet" }, note), ...parts.flatMap(shape)];
  }
  if (!schema.properties) return [make("p", {}, ...kind(schema))];
  const rows = Object.entries(schema.properties).map(([name, member]) => [
    make("code", {}, name + (schema.required?.includes(name) ? "" : "?")),
    kind(member),
    member.description ?? "",
  ]);
  return [table(["member", "type", "what it is"], rows)];
}

function contents(bodies) {
  return Object.entries(bodies ?? {}).flatMap(([type, { schema }]) => [
    make("p", {}, make("code", {}, type), " ", ...(schema?.properties ? [] : kind(schema))),
    ...(schema?.properties ? shape(schema) : []),
  ]);
}

function call(path, method, operation) {
  const details = make("details", { id: operation.operationId });
  details.append(
    make("summary", {}, make("span", { class: "method" }, method.toUpperCase()), make("code", {}, path), ` ${operation.summary ?? ""}`),
  );
  const inside = make("div");
  const tokens = (operation.security ?? []).flatMap(Object.keys);
  inside.append(make("p", { class: "quiet" }, `Bearer token: ${tokens.join(", ")}`));
  if (operation.parameters?.length) {
    const rows = operation.parameters.map((parameter) => [
      make("code", {}, parameter.name + (parameter.required ? "" : "?")),
      parameter.in,
      kind(parameter.schema),
      parameter.description ?? "",
    ]);
    inside.append(make("h3", {}, "Parameters"), table(["name", "in", "type", "what it is"], rows));
  }
  if (operation.requestBody) inside.append(make("h3", {}, "Body"), ...contents(operation.requestBody.content));
  for (const [status, response] of Object.entries(operation.responses)) {
    inside.append(make("h3", {}, status === "default" ? "Otherwise" : status), make("p", {}, response.description ?? ""), ...contents(response.content));
  }
  details.append(inside);
  return details;
}

function type(name, schema) {
  const details = make("details", { id: `type-${name}` });
  const inside = make("div", {}, make("p", {}, schema.description ?? ""), ...shape(schema));
  details.append(make("summary", {}, make("code", {}, name)), inside);
  return details;
}

/** Opens what the address names. */
function open() {
  const element = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (element?.localName === "details") {
    element.open = true;
    element.scrollIntoView();
  }
}

async function show() {
  const about = document.getElementById("about");
  const response = await fetch("/openapi.json");
  if (!response.ok) {
    about.textContent = `The coordinator answers ${response.status}.`;
    return;
  }
  const api = await response.json();
  about.replaceChildren(`Release ${api.info.version}. ${api.info.description} `, make("a", { href: "/openapi.json" }, "openapi.json"));
  const calls = document.getElementById("calls");
  for (const tag of api.tags) {
    calls.append(make("h2", {}, tag.name), make("p", { class: "quiet" }, tag.description ?? ""));
    for (const [path, item] of Object.entries(api.paths)) {
      for (const method of METHODS) {
        if (item[method]?.tags?.includes(tag.name)) calls.append(call(path, method, item[method]));
      }
    }
  }
  const types = document.getElementById("types");
  types.append(make("h2", {}, "Types"));
  for (const [name, schema] of Object.entries(api.components.schemas)) types.append(type(name, schema));

  document.getElementById("find").addEventListener("input", ({ target }) => {
    const wanted = target.value.trim().toLowerCase();
    for (const details of document.querySelectorAll("details")) {
      details.hidden = wanted !== "" && !details.textContent.toLowerCase().includes(wanted);
    }
  });
  addEventListener("hashchange", open);
  open();
}

show();
