/** @file The run config: all settings, and those of the web tools, have descriptions that can be read at run time; default clip ranges; refused values. */
import { expect, test } from "vitest";
import type * as z from "zod";
import { WebSettings } from "../../../adapters/tools/web/settings.ts";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import { RunConfig } from "../../../core/contracts/config.ts";
import { MAX_TEMPERATURE } from "../../../core/contracts/rollout.ts";

/** The parts of Zod's definitions that lead to other schemas. */
interface Definition {
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly innerType?: z.ZodType;
  readonly element?: z.ZodType;
  readonly valueType?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly in?: z.ZodType;
  readonly out?: z.ZodType;
}

/** Every setting below a schema: its path, such as `agents.*.limits.turns`, and its description. */
function* settingsOf(schema: z.ZodType, path = ""): Generator<[path: string, description: string | undefined]> {
  // Zod types its definitions by the kind of schema, which is not known here.
  const definition = schema.def as unknown as Definition;
  const { shape = {}, innerType, element, valueType, options = [], in: input, out } = definition;
  for (const inner of [innerType, input, out, ...options]) if (inner) yield* settingsOf(inner, path);
  if (element) yield* settingsOf(element, path);
  if (valueType) yield* settingsOf(valueType, `${path}.*`);
  for (const [name, field] of Object.entries(shape)) {
    const at = path === "" ? name : `${path}.${name}`;
    yield [at, field.description];
    yield* settingsOf(field, at);
  }
}

test.each([
  ["the run config", RunConfig],
  ["the web tools", WebSettings],
])("every setting of %s has a description: one line of up to 200 characters that ends with a period", (_, schema) => {
  const faults = [...settingsOf(schema)].filter(([, text]) => text === undefined || !/^[^\n]{5,199}\.$/.test(text));
  expect(faults).toEqual([]);
});

test("settingsOf finds settings in lists, records, unions and defaults", () => {
  const paths = [...settingsOf(RunConfig)].map(([path]) => path);
  expect(paths).toEqual(
    expect.arrayContaining([
      "agents.*.optimizer.learningRate",
      "agents.*.lora.rank",
      "curriculum.from",
      "curriculum.fromStep",
      "evaluation.suites.closedBook",
      "judge.model.baseUrl",
      "judge.model.region",
      "questions.train",
    ]),
  );
});

test("the default clip range depends on the ratio: that of `sequence-mean` is GSPO's", () => {
  const rangeOf = (settings: object) => {
    const { clipLow, clipHigh } = AlgorithmConfig.parse(settings);
    return [clipLow, clipHigh];
  };
  expect(rangeOf({})).toEqual([0.2, 0.28]);
  expect(rangeOf({ ratio: "sequence" })).toEqual([0.2, 0.28]);
  expect(rangeOf({ ratio: "sequence-mean" })).toEqual([3e-4, 4e-4]);
  expect(rangeOf({ ratio: "sequence-mean", clipHigh: 0.1 })).toEqual([3e-4, 0.1]);
  const parsed = AlgorithmConfig.parse({ ratio: "sequence-mean" });
  expect(AlgorithmConfig.parse(parsed)).toEqual(parsed);
});

test.each([
  [0.1, 0.3, true],
  [0.2, 0.6, true],
  [1, 2.9, false],
])("heartbeats every %f s and a lease of %f s are accepted: %s", (heartbeatSeconds, leaseSeconds, accepted) => {
  const liveness = { heartbeatSeconds, leaseSeconds };
  const config = { run: "r", recipe: "atlas", steps: 1, agents: { main: { model: "m" } }, liveness };
  expect(RunConfig.safeParse(config).success).toBe(accepted);
});

test("wandb is refused with a message that says what to track instead", () => {
  const { error } = RunConfig.shape.track.safeParse(["wandb"]);
  expect(error?.message).toContain("track tensorboard, and W&B imports its files with `wandb sync");
  expect(RunConfig.shape.track.safeParse(["nothing"]).error?.message).not.toContain("wandb");
});

test("bf16 is refused without the compiled policy or without cuda; following the messages makes the config valid", () => {
  const config = (policy: string, engine: object) =>
    RunConfig.safeParse({
      run: "any",
      recipe: "any",
      steps: 1,
      agents: { main: { model: "m", policy, engine: { precision: "bf16", ...engine } } },
    });
  expect(config("eager", {}).error?.issues.map(({ message }) => message)).toEqual([
    "bf16 needs policy 'compiled', not 'eager': remove it, or set that",
  ]);
  expect(config("compiled", {}).error?.issues.map(({ message }) => message)).toEqual([
    "bf16 needs engine.provider cuda, not 'cpu': remove it, or set that",
  ]);
  expect(config("compiled", { provider: "cuda" }).success).toBe(true);
});

test("a temperature above MAX_TEMPERATURE is refused, in training and in a suite", () => {
  const { temperature, evaluation } = RunConfig.shape;
  expect(temperature.safeParse(MAX_TEMPERATURE).success).toBe(true);
  expect(temperature.safeParse(MAX_TEMPERATURE + 1).success).toBe(false);
  const suites = [{ name: "held-out", questions: 1, temperature: MAX_TEMPERATURE + 1 }];
  expect(evaluation.safeParse({ suites }).error?.issues[0]?.path).toEqual(["suites", 0, "temperature"]);
});
