/**
 * @file Checks an agent's arguments against the JSON Schema of an MCP server's tool (ajv, with linear-time patterns). The server wrote the schema:
 * 2 KB of references to references can demand 2^40 checks, and a reference to itself endless ones. So compiling and checking have a time
 * limit. Arguments that cannot be checked pass, since the server checks them itself.
 */
import { createContext, Script } from "node:vm";
import { Ajv, type ValidateFunction } from "ajv";
import { Ajv2019 } from "ajv/dist/2019.js";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import * as z from "zod";
import { errorText, MgrpoError } from "../../../../core/errors.ts";
import { clip } from "../../../../core/well-formed.ts";
import { linearPattern } from "./patterns.ts";
import type { McpTool } from "./results.ts";

/** Most schemas compile in 10 ms and check arguments in less than 1 ms. The limits leave room for a process that is suspended in between. */
const [COMPILE_MILLISECONDS, CHECK_MILLISECONDS] = [5000, 1000];
/** How much of one check's errors the agent's conversation records. */
const [MAX_ERRORS, MAX_ERROR_CHARACTERS] = [3, 500];

/**
 * A Zod type that validates with a JSON Schema and exports that schema without its `$schema`. Throws `tool-backend` if the schema cannot be
 * used.
 */
export function validatedBy(schema: McpTool["schema"], name: string): z.ZodType<Record<string, unknown>> {
  const { ajv, check } = compiled(schema, name);
  const { $schema: _, ...described } = schema;
  const checked = z.unknown().superRefine((value, context) => {
    if (!passes(check, value)) context.addIssue({ code: "custom", message: messageOf(ajv, check.errors ?? []) });
  });
  // Cast: a tool's JSON Schema describes an object.
  return checked.meta(described) as z.ZodType as z.ZodType<Record<string, unknown>>;
}

interface Compiled {
  readonly ajv: AnyAjv;
  readonly check: ValidateFunction;
}

/** MCP's default draft is 2020-12. A schema that lists a tuple's types in `items` is of an older one, whether or not its `$schema` says so. */
function compiled(schema: McpTool["schema"], name: string): Compiled {
  try {
    const stated = String(schema["$schema"]);
    if (/\bdraft-0\d\b/.test(stated)) return compiledBy(Ajv, schema);
    if (/\bdraft\/2019-09\b/.test(stated)) return compiledBy(Ajv2019, schema);
    try {
      return compiledBy(Ajv2020, schema);
    } catch (error) {
      if (isTimeout(error)) throw error;
      return compiledBy(Ajv, schema);
    }
  } catch (cause) {
    const why = isTimeout(cause) ? "it is too complex" : errorText(cause);
    throw new MgrpoError("tool-backend", `tool '${name}': its JSON Schema cannot be used: ${why}`, { cause });
  }
}

function compiledBy(Draft: AnyDraft, schema: McpTool["schema"]): Compiled {
  const ajv = createAjv(Draft);
  // With `$async`, ajv's own keyword, a check would return a promise, whose rejection nothing handles.
  return { ajv, check: withinMilliseconds(COMPILE_MILLISECONDS, () => ajv.compile({ ...schema, $async: false })) };
}

function passes(check: ValidateFunction, value: unknown): boolean {
  try {
    return withinMilliseconds(CHECK_MILLISECONDS, () => check(value));
  } catch (error) {
    // V8 throws a RangeError when the stack is full.
    if (isTimeout(error) || error instanceof RangeError) return true;
    throw error;
  }
}

const messageOf = (ajv: AnyAjv, errors: NonNullable<ValidateFunction["errors"]>): string =>
  clip(ajv.errorsText(errors.slice(0, MAX_ERRORS)), MAX_ERROR_CHARACTERS);

type AnyDraft = typeof Ajv | typeof Ajv2019 | typeof Ajv2020;
type AnyAjv = InstanceType<AnyDraft>;

function createAjv(Draft: AnyDraft): AnyAjv {
  // `code`: only needed to compile a schema to a file.
  const regExp = Object.assign(linearPattern, { code: "linearPattern" });
  const options = {
    strict: false,
    validateSchema: false,
    allErrors: true,
    // Otherwise 19.99 is not a multiple of 0.01.
    multipleOfPrecision: 9,
    // It would print a warning for each unknown format, and unknown formats are common.
    logger: false,
    code: { regExp },
  } as const;
  return addFormats.default(new Draft(options)) as AnyAjv;
}

const script = new Script("work()");
const NOTHING = () => undefined;
const context: { work: () => unknown } = { work: NOTHING };
createContext(context);

/** Runs `work` in a vm script: only vm's `timeout` can interrupt synchronous code from its own thread. */
function withinMilliseconds<T>(timeout: number, work: () => T): T {
  context.work = work;
  try {
    return script.runInContext(context, { timeout }) as T;
  } finally {
    context.work = NOTHING;
  }
}

/** The error belongs to the script's context, so it is not an instance of this context's `Error`. */
const isTimeout = (error: unknown): boolean =>
  (error as { code?: unknown } | undefined)?.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
