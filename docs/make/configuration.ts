/**
 * @file docs/configuration.md, from the Zod schemas of the run config and of the web tools: every setting with its type, default and
 * one-line description.
 */
import * as z from "zod";
import { WebSettings } from "../../adapters/tools/web/settings.ts";
import { RunConfig } from "../../core/contracts/config.ts";

const HEADER = `# Configuration

Generated from the schemas of the run config (\`core/contracts/config.ts\`) and of the web tools (\`adapters/tools/web/settings.ts\`) by
\`npm run docs\`; do not edit.

A recipe's \`config\` has these settings; \`--set <path>=<value>\` overrides one, for instance \`--set algorithm.clipHigh=0.3\` or
\`--set 'agents.main.lora={}'\`. Unknown keys are errors. The defaults are recommended. A run keeps its resolved config in \`config.json\`.
`;

const TOOLS = `## tools

Settings of the [web tools](tools.md), for a recipe whose \`tools.ts\` opens them (\`openWebTools\`). A recipe with its own tools documents their settings.`;

/** The part of JSON Schema that Zod writes for the config. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  /** The members of a discriminated union. */
  readonly oneOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

interface Setting {
  readonly path: string;
  readonly type: string;
  readonly fallback: string;
  readonly description: string;
}

export function configurationReference(): string {
  const groups = grouped(settingsOf("", jsonSchemaOf(RunConfig)));
  const sections = [...groups].map(([name, rows]) =>
    [`## ${name.includes("<") ? code(name) : name}`, table(rows)].join("\n\n"),
  );
  const tools = [TOOLS, table(settingsOf("tools", jsonSchemaOf(WebSettings)))];
  return `${[HEADER, ...sections, ...tools].join("\n\n").replace(/\n{3,}/g, "\n\n")}\n`;
}

const jsonSchemaOf = (schema: z.ZodType) =>
  z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" }) as Schema;

/** Every setting of an object, including those of nested objects. */
function settingsOf(prefix: string, schema: Schema): Setting[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, value]) => {
    const path = prefix === "" ? key : `${prefix}.${key}`;
    const nested = nestedOf(path, value);
    // An object is listed as its settings, with a line of its own only if it may be null, or is in a list, map or union.
    const isPlainObject = nested.length > 0 && value.properties !== undefined;
    return [...(isPlainObject ? [] : [settingOf(path, value, key, schema)]), ...nested];
  });
}

function nestedOf(path: string, value: Schema): Setting[] {
  const inner = withoutNull(value);
  if (inner.items) return nestedOf(`${path}[]`, inner.items);
  if (typeof inner.additionalProperties === "object") return nestedOf(`${path}.<name>`, inner.additionalProperties);
  const members = inner.oneOf ?? inner.anyOf;
  if (members) return merged(members.map((member) => settingsOf(path, member)).filter(({ length }) => length > 0));
  return settingsOf(path, inner);
}

/** A setting that several members of a union have is listed once, with what each says. It is required if every member requires it. */
function merged(members: readonly (readonly Setting[])[]): Setting[] {
  const settings = members.flat();
  const paths = [...new Set(settings.map(({ path }) => path))];
  return paths.map((path) => {
    const same = settings.filter((setting) => setting.path === path);
    const isRequired = members.every((member) =>
      member.some((one) => one.path === path && one.fallback === "required"),
    );
    const each = (of: (setting: Setting) => string, join: string) =>
      [...new Set(same.map(of))].filter((text) => text !== "" && text !== "required").join(join);
    const fallback = isRequired ? "required" : each((one) => one.fallback, " or ");
    return { path, type: each((one) => one.type, " or "), fallback, description: each((one) => one.description, " ") };
  });
}

/** A default can be the setting's own or part of the enclosing object's. */
function settingOf(path: string, schema: Schema, key: string, parent: Schema): Setting {
  const parentDefaults = parent.default as Readonly<Record<string, unknown>> | null | undefined;
  const fallback = schema.default === undefined ? parentDefaults?.[key] : schema.default;
  const isRequired = parent.required?.includes(key) ?? false;
  return {
    path,
    type: typeOf(schema),
    fallback: fallback !== undefined ? shown(fallback, schema) : isRequired ? "required" : "",
    description: schema.description ?? "",
  };
}

/** A default as JSON, or in words if it is a long list of every value that its items may have. */
function shown(value: unknown, { items }: Schema): string {
  const text = JSON.stringify(value);
  const isAll = Array.isArray(value) && value.length === items?.enum?.length;
  return isAll && text.length > 60 ? "all of these" : code(text);
}

function withoutNull(schema: Schema): Schema {
  const [only, ...others] = (schema.anyOf ?? []).filter(({ type }) => type !== "null");
  return only && others.length === 0 ? only : schema;
}

function typeOf(schema: Schema): string {
  if (schema.enum) return schema.enum.map((value) => code(JSON.stringify(value))).join(", ");
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.oneOf) return "object";
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? typeOf(schema.items) : "values"}`;
  const type = String(schema.type ?? "JSON");
  return type + rangeOf(schema);
}

function rangeOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema): string {
  const low = exclusiveMinimum !== undefined ? `> ${exclusiveMinimum}` : minimum !== undefined ? `>= ${minimum}` : "";
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  const high = exclusiveMaximum !== undefined ? `< ${exclusiveMaximum}` : isBounded ? `<= ${maximum}` : "";
  const range = [low, high].filter((bound) => bound !== "" && !bound.includes(String(Number.MIN_SAFE_INTEGER)));
  return range.length > 0 ? ` ${range.join(", ")}` : "";
}

const sectionOf = ({ path }: Setting): string => {
  const [head = "", name] = path.split(".");
  if (head === "agents" && name) return "agents.<name>";
  return path.includes(".") ? head : "The run";
};

function grouped(settings: readonly Setting[]): Map<string, Setting[]> {
  const groups = new Map<string, Setting[]>();
  for (const setting of settings) {
    const name = sectionOf(setting);
    groups.set(name, [...(groups.get(name) ?? []), setting]);
  }
  return groups;
}

function table(rows: readonly Setting[]): string {
  const lines = rows.map(({ path, type, fallback, description }) => {
    return `| ${code(path)} | ${type} | ${fallback} | ${cell(description)} |`;
  });
  return ["| setting | type | default | |", "|---|---|---|---|", ...lines].join("\n");
}

/** Markdown shows an entity in a code span as it is written, so a `<` becomes one only outside of code spans. */
const cell = (text: string) =>
  text.replaceAll("|", "\\|").replace(/`[^`]*`|</g, (found) => (found === "<" ? "&lt;" : found));

const code = (text: string) => `\`${text.replaceAll("|", "\\|")}\``;
