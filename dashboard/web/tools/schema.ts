// TypeScript types from the schemas of the coordinator's OpenAPI document. It knows the keywords that this document
// uses, and fails on a schema of another type.

import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  /** What else the object may have: anything, nothing, or values of one schema. */
  additionalProperties?: boolean | Schema;
  items?: Schema | false;
  prefixItems?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
}

export interface OpenApi {
  components: { schemas: Record<string, Schema> };
}

const HEAD = `// Types of the coordinator's requests and answers. \`npm run api\` writes this file from openapi.json.`;
/** Comments are broken here; the formatter does not break them. */
const COMMENT_COLUMNS_MAX = 100;

/** The text of src/api/schema.ts, as Biome formats it. */
export function schemaSource({ components }: OpenApi): string {
  const types = Object.entries(components.schemas).map(
    ([name, schema]) => `${comment(schema)}${declared(name, schema)}`,
  );
  const root = fileURLToPath(new URL("..", import.meta.url));
  const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
  const format = [biome, "format", "--stdin-file-path=src/api/schema.ts"];
  return execFileSync(process.execPath, format, { cwd: root, input: [HEAD, ...types].join("\n\n"), encoding: "utf8" });
}

function declared(name: string, schema: Schema): string {
  const isInterface = schema.properties !== undefined && !open(schema);
  return isInterface ? `export interface ${name} ${members(schema)}` : `export type ${name} = ${typeOf(schema)};`;
}

/** Whether the object may have members that its schema does not name. */
function open({ additionalProperties }: Schema): boolean {
  return additionalProperties !== undefined && additionalProperties !== false;
}

function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return schema.$ref.replace("#/components/schemas/", "");
  if (schema.oneOf) return schema.oneOf.map((one) => `(${typeOf(one)})`).join(" | ");
  if (schema.allOf) return schema.allOf.map((one) => `(${typeOf(one)})`).join(" & ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  return [schema.type ?? "any"]
    .flat()
    .map((type) => typeNamed(type, schema))
    .join(" | ");
}

function typeNamed(type: string, schema: Schema): string {
  switch (type) {
    case "any":
      return "unknown";
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return type;
    case "array":
      if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
      return `(${typeOf(schema.items || {})})[]`;
    case "object":
      return objectType(schema);
    default:
      throw new Error(`tools/schema.ts does not know schemas of type ${type}`);
  }
}

function objectType(schema: Schema): string {
  const { properties, additionalProperties: others } = schema;
  if (properties && !open(schema)) return members(schema);
  const value = others === false ? "never" : typeof others === "object" ? typeOf(others) : "unknown";
  return properties ? `${members(schema)} & Record<string, ${value}>` : `Record<string, ${value}>`;
}

function members({ properties = {}, required = [] }: Schema): string {
  const lines = Object.entries(properties).map(
    ([name, schema]) => `${comment(schema)}${name}${required.includes(name) ? "" : "?"}: ${typeOf(schema)};`,
  );
  return `{\n${lines.join("\n")}\n}`;
}

/** The description as a comment, broken into lines. */
function comment({ description = "" }: Schema): string {
  const lines: string[] = [];
  for (const word of description.split(/\s+/).filter(Boolean)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < COMMENT_COLUMNS_MAX)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  if (lines.length === 0) return "";
  return lines.length === 1 ? `/** ${lines[0]} */\n` : `/**\n${lines.map((line) => ` * ${line}\n`).join("")} */\n`;
}
