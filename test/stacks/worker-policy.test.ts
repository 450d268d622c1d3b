/** @file What a fleet's instances may write: records of runs, and the objects that their roles produce, each object once. */
import { expect, test } from "vitest";
import { isConversationKey, objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { FleetSettings } from "../../stacks/fleet.ts";
import { workerStatements } from "../../stacks/worker-policy.ts";

const ARNS = { table: "table", bucket: "bucket", group: "group", secrets: ["token"] };
const fleetOf = (agent: string, roles: string): FleetSettings => ({
  name: "fleet",
  agent,
  roles,
  gpu: true,
  instanceTypes: ["g6.xlarge"],
  max: 1,
  onDemand: 0,
});
const main = workerStatements(fleetOf("main", "rollout,train"), ARNS);
const evaluators = workerStatements(fleetOf("*", "eval"), ARNS);

/** Matches as AWS does: `*` stands for any text. */
const matches = (pattern: string, text: string) =>
  new RegExp(
    `^${pattern
      .split("*")
      .map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"))
      .join(".*")}$`,
  ).test(text);

function isAllowed(action: string, statements: typeof main, key: string): boolean {
  return statements
    .filter(({ effect, actions }) => effect !== "Deny" && actions.includes(action))
    .some(({ resources }) => resources.some((resource) => matches(resource, `bucket/${key}`)));
}
const mayPut = (statements: typeof main, key: string) => isAllowed("s3:PutObject", statements, key);
const mayTag = (statements: typeof main, key: string) => isAllowed("s3:PutObjectTagging", statements, key);

const mayWrite = (statements: typeof main, { pk }: { pk: string }) =>
  statements
    .filter(({ effect, actions }) => effect !== "Deny" && actions.some((action) => WRITES.test(action)))
    .some(({ conditions = [] }) =>
      conditions
        .filter(({ test: operator }) => operator === "ForAllValues:StringLike")
        .every(({ values }) => values.some((value) => matches(value, pk))),
    );
const WRITES = /^dynamodb:(?!Get|BatchGet|Query|Scan)/;

const keysArePresent = { test: "Null", variable: "dynamodb:LeadingKeys", values: ["false"] };

test("workers may write records of runs, but neither the deployment's record nor the list of runs", () => {
  for (const key of [
    tableKeys.run("r"),
    tableKeys.worker("r", "w"),
    tableKeys.group("r", 0, 0),
    tableKeys.job("r", "j"),
  ])
    expect(mayWrite(main, key)).toBe(true);
  for (const key of [tableKeys.deployment, tableKeys.listed("r")]) expect(mayWrite(main, key)).toBe(false);
  // The condition on keys alone also holds for a request without keys.
  const writing = main.filter(({ actions }) => actions.some((action) => WRITES.test(action)));
  for (const { conditions } of writing) expect(conditions).toContainEqual(keysArePresent);
});

test("only evaluators may claim verdicts: the functions score training rollouts", () => {
  const claim = tableKeys.verdict("r", "subject", "judge");
  expect(mayWrite(evaluators, claim)).toBe(true);
  expect(mayWrite(main, claim)).toBe(false);
});

test("a worker may write what its roles produce, and versions of its own agent only", () => {
  const address = { run: "r", step: 1, group: 2, rollout: 3 };
  const outcome = objectKeys.outcome({ ...address, phase: "train" });
  const hash = "0".repeat(64);
  const byMain = [
    objectKeys.manifest("r", "main", 1),
    objectKeys.part("r", hash),
    outcome,
    objectKeys.trainedTokens("r", 1, "main"),
  ];
  const byEvaluators = [
    objectKeys.outcome({ ...address, phase: "eval:job" }),
    objectKeys.evaluation("r", "job"),
    objectKeys.verdict("r", hash, "judge"),
  ];
  const byBoth = [
    objectKeys.invocation("r", 1, "id"),
    objectKeys.toolAnswer("r", hash),
    objectKeys.stepTelemetry("r", 1, "worker"),
  ];
  const byNone = [
    objectKeys.manifest("r", "searcher", 1),
    objectKeys.trainedTokens("r", 1, "searcher"),
    objectKeys.config("r"),
    objectKeys.questions("r"),
    objectKeys.team("r", 1),
  ];
  for (const key of [...byMain, ...byBoth]) expect(mayPut(main, key), key).toBe(true);
  for (const key of [...byEvaluators, ...byNone]) expect(mayPut(main, key), key).toBe(false);
  for (const key of [...byEvaluators, ...byBoth]) expect(mayPut(evaluators, key), key).toBe(true);
  for (const key of [...byMain, ...byNone]) expect(mayPut(evaluators, key), key).toBe(false);
});

test("a worker may tag the expiring objects that it writes", () => {
  const address = { run: "r", step: 1, group: 2, rollout: 3 };
  const byBoth = [objectKeys.invocation("r", 1, "id"), objectKeys.stepTelemetry("r", 1, "worker")];
  const byMain = [objectKeys.outcome({ ...address, phase: "train" }), objectKeys.trainedTokens("r", 1, "main")];
  const byEvaluators = [objectKeys.outcome({ ...address, phase: "eval:job" })];
  for (const key of [...byBoth, ...byMain, ...byEvaluators]) expect(isConversationKey(key), key).toBe(true);
  for (const key of [...byBoth, ...byMain]) expect(mayTag(main, key), key).toBe(true);
  for (const key of [...byBoth, ...byEvaluators]) expect(mayTag(evaluators, key), key).toBe(true);
});

test.each([
  ["main", main],
  ["evaluators", evaluators],
])("%s: writes under runs/ need If-None-Match, except an upload's parts, and no delete is allowed", (_, statements) => {
  const denied = statements.filter(({ effect }) => effect === "Deny");
  expect(denied).toEqual([
    {
      effect: "Deny",
      actions: ["s3:PutObject"],
      resources: ["bucket/runs/*"],
      conditions: [
        { test: "Null", variable: "s3:if-none-match", values: ["true"] },
        { test: "Bool", variable: "s3:ObjectCreationOperation", values: ["true"] },
      ],
    },
  ]);
  expect(statements.flatMap(({ actions }) => actions).filter((action) => /Delete|\*/.test(action))).toEqual([]);
});
