/** @file Keys: parsing inverts naming, and nothing else parses; which objects expire; which items belong to a run or a list of runs; canonical JSON. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  isConversationKey,
  isRunPartition,
  objectKeys,
  parseObjectKey,
  parseOutcomeKey,
  type TableKey,
  tableKeys,
} from "../../../core/contracts/keys.ts";
import { canonicalJson } from "../../../core/contracts/parse.ts";

const run = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,20}$/);
const index = fc.nat(9999);
const step = fc.oneof(index, fc.integer({ min: 1_000_000, max: 9_999_999 }));

test("parseOutcomeKey inverts objectKeys.outcome", () => {
  fc.assert(
    fc.property(run, step, index, index, (run, step, group, rollout) => {
      const address = { run, phase: "train", step, group, rollout };
      expect(parseOutcomeKey(objectKeys.outcome(address))).toEqual(address);
      expect(parseObjectKey(objectKeys.outcome(address))).toMatchObject({ run, kind: "outcome" });
    }),
  );
});

test("parseObjectKey recognizes manifests, teams and evaluations, but no object whose creation calls no function", () => {
  for (const version of [3, 1_000_000]) {
    expect(parseObjectKey(objectKeys.manifest("r", "main", version))?.kind).toBe("manifest");
    expect(parseObjectKey(objectKeys.team("r", version))?.kind).toBe("team");
  }
  expect(parseObjectKey(objectKeys.evaluation("r", "j1"))?.kind).toBe("evaluation");
  const evaluation = { run: "r", phase: "eval:j1", step: 0, group: 4, rollout: 0 };
  for (const key of [
    objectKeys.outcome(evaluation),
    objectKeys.part("r", "0".repeat(64)),
    objectKeys.config("r"),
    objectKeys.stepTelemetry("r", 3, "w"),
    "elsewhere/outcomes/000000/0/0.json",
    "runs/r/outcomes/000000/0/0.json.tmp",
  ]) {
    expect(parseObjectKey(key), key).toBeUndefined();
  }
});

test("parseOutcomeKey does not parse the key of an evaluation's outcome", () => {
  expect(
    parseOutcomeKey(objectKeys.outcome({ run: "r", phase: "eval:j", step: 1, group: 0, rollout: 0 })),
  ).toBeUndefined();
});

test("canonical JSON is the same for the same record, whatever the order of its keys", () => {
  expect(canonicalJson({ b: [{ d: 1, c: 2 }], a: null })).toBe('{"a":null,"b":[{"c":2,"d":1}]}');
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (record) => {
      const reversed = Object.fromEntries(Object.entries(record).reverse());
      expect(canonicalJson(reversed)).toBe(canonicalJson(record));
    }),
  );
});

test("only outcomes, invocations and telemetry expire; config, questions, weights, manifests, teams, evaluation results, verdicts and tool answers do not", () => {
  const address = { run: "r", step: 3, group: 1, rollout: 2 };
  const expiring = [
    objectKeys.outcome({ ...address, phase: "train" }),
    objectKeys.outcome({ ...address, phase: "eval:j" }),
    objectKeys.invocation("r", 3, "i"),
    objectKeys.stepTelemetry("r", 3, "w"),
    objectKeys.trainedTokens("r", 3, "main"),
  ];
  const kept = [
    ...[objectKeys.config("r"), objectKeys.questions("r"), objectKeys.part("r", "outcomes")],
    ...[objectKeys.manifest("outcomes", "main", 1), objectKeys.team("r", 1), objectKeys.evaluation("r", "j")],
    ...[objectKeys.verdict("r", "s", "judge"), objectKeys.toolAnswer("r", "outcomes")],
  ];
  expect(expiring.map(isConversationKey)).toEqual(expiring.map(() => true));
  expect(kept.map(isConversationKey)).toEqual(kept.map(() => false));
});

test("isRunPartition accepts the partition key of every item except the deployment, and no similar key", () => {
  const makers = Object.entries({ ...tableKeys, deployment: () => tableKeys.deployment });
  const keys = makers.map(([name, make]) => [
    name,
    (make as (...args: (string | number)[]) => TableKey)("r", "1", 2).pk,
  ]);
  expect(keys.filter(([, pk]) => !isRunPartition(pk ?? ""))).toEqual([["deployment", "DEPLOYMENT"]]);
  for (const pk of ["USER#1", "RUNSHEET", "ARCHIVES", "CLOCK"]) expect(isRunPartition(pk)).toBe(false);
});
