/** @file The functions: permissions, triggers, and no redelivery of a message while it is being handled. */
import { expect, inject, test } from "vitest";
import { objectKeys, parseObjectKey, tableKeys } from "../../core/contracts/keys.ts";
import { withinPartitions } from "../../stacks/worker-policy.ts";
import { FUNCTION_ACTIONS } from "../fixtures/function-actions.ts";
import { ofKind, type Resource, resourceNamed, statementsOf } from "./resources.ts";

const prod = inject("prod");
const serverless = inject("serverless");
const NAMES = Object.keys(prod.handlers);
const TRIGGERED = NAMES.filter((name) => name !== "StartRun");
/** What a function whose events come through a queue needs. */
const QUEUE_ACTIONS = [
  "sqs:ChangeMessageVisibility",
  "sqs:DeleteMessage",
  "sqs:GetQueueAttributes",
  "sqs:GetQueueUrl",
  "sqs:ReceiveMessage",
];
const LOG_ACTIONS = ["logs:CreateLogStream", "logs:PutLogEvents"];
const handlerOf = (name: string) => (prod.handlers[name] ?? "").replace(/^functions\/lambda\/|\.ts$/g, "");
const functionOf = (name: string) => resourceNamed(ofKind(prod, "Function"), `${name}Function`).inputs;
const queueOf = (name: string) => resourceNamed(ofKind(prod, "Queue"), `${name}QueueQueue`).inputs;
const ruleArn = (name: string) => `arn:aws:EventRule:us-east-1:123456789012:${name}`;
const arnOf = (queue: { name: string }) => `arn:aws:sqs:us-east-1:123456789012:${queue.name}`;

test("every handler is deployed, and nothing else", () => {
  expect(NAMES.map(handlerOf).sort()).toEqual(Object.keys(FUNCTION_ACTIONS).sort());
});

test.each(NAMES)("%s: arm64, with a time limit, the names of table and bucket, and a JSON log that expires", (name) => {
  const fn = functionOf(name);
  expect(fn).toMatchObject({ architectures: ["arm64"], runtime: "nodejs22.x" });
  // Scoring may wait for a judge.
  expect(fn.timeout).toBeLessThanOrEqual(name === "ScoreRollout" ? 540 : 60);
  expect(fn.environment.variables.MGRPO_TABLE).toBe(ofKind(prod, "Table")[0]?.inputs.name);
  expect(fn.environment.variables.MGRPO_BUCKET).toBe(ofKind(prod, "Bucket")[0]?.inputs.bucket);
  const log = resourceNamed(ofKind(prod, "LogGroup"), `${name}Log`).inputs;
  expect(fn.loggingConfig).toEqual({ logFormat: "JSON", logGroup: log.name });
  expect(log.retentionInDays).toBe(30);
});

test("functions get the path of the project's bundle if MGRPO_PROJECT names a project", () => {
  const projectsOf = (deployment: typeof prod) =>
    NAMES.map(
      (name) =>
        resourceNamed(ofKind(deployment, "Function"), `${name}Function`).inputs.environment.variables.MGRPO_PROJECT,
    );
  expect(projectsOf(serverless)).toEqual(NAMES.map(() => "/var/task/project"));
  expect(projectsOf(prod)).toEqual(NAMES.map(() => undefined));
});

test.each(NAMES)("%s: its role allows only its bundle's requests, its own queue and its own log", (name) => {
  const role = resourceNamed(ofKind(prod, "Role"), `${name}Role`).inputs;
  expect(role.managedPolicyArns).toEqual([]);
  expect(JSON.stringify(role.assumeRolePolicy)).not.toContain(":root");
  const statements = statementsOf(prod).flatMap(({ of, statement }) => (of === `${name}Role` ? [statement] : []));
  const isTriggered = TRIGGERED.includes(name);
  const actions = [...(FUNCTION_ACTIONS[handlerOf(name)] ?? []), ...(isTriggered ? QUEUE_ACTIONS : []), ...LOG_ACTIONS];
  expect(statements.flatMap((statement) => statement.actions).sort()).toEqual(actions.sort());
  const resourcesOf = (service: string) =>
    statements
      .filter((statement) => statement.actions.some((action) => action.startsWith(service)))
      .flatMap(({ resources }) => resources);
  expect(resourcesOf("sqs:")).toEqual(isTriggered ? [arnOf(queueOf(name))] : []);
  expect(resourcesOf("logs:")).toEqual([`arn:aws:LogGroup:us-east-1:123456789012:${name}Log:*`]);
});

test.each(TRIGGERED)("%s: redelivery after at least six time limits, five deliveries, a dead-letter queue", (name) => {
  const queue = queueOf(name);
  const dead = resourceNamed(ofKind(prod, "Queue"), `${name}DeadQueue`).inputs;
  expect(queue.visibilityTimeoutSeconds).toBeGreaterThanOrEqual(6 * functionOf(name).timeout);
  expect(JSON.parse(queue.redrivePolicy)).toEqual({ deadLetterTargetArn: arnOf(dead), maxReceiveCount: 5 });
  expect(dead.messageRetentionSeconds).toBe(14 * 86_400);
  const source = ofKind(prod, "EventSourceMapping").find(({ inputs }) => inputs.eventSourceArn === arnOf(queue));
  expect(source?.inputs.functionResponseTypes).toEqual(["ReportBatchItemFailures"]);
  expect(source?.inputs.functionName).toContain(`${name}Function`);
});

/** A key of each kind that triggers a function, and that function. */
const KEYS: Record<string, string> = {
  [objectKeys.outcome({ run: "r", phase: "train", step: 3, group: 1, rollout: 2 })]: "ScoreRollout",
  [objectKeys.manifest("r", "main", 3)]: "Tick",
  [objectKeys.team("r", 3)]: "EnqueueEvaluation",
  [objectKeys.evaluation("r", "job")]: "RecordEvaluation",
};

test.each(Object.entries(KEYS))("%s triggers only %s", (key, name) => {
  expect(parseObjectKey(key)).toBeDefined();
  const triggered = objectRules().filter((rule) => matches(rule, key));
  expect(triggered.map((rule) => rule.name)).toEqual([`${name}Rule`]);
  const target = resourceNamed(ofKind(prod, "EventTarget"), `${name}Target`).inputs;
  expect(target).toMatchObject({ rule: `${name}Rule`, arn: arnOf(queueOf(name)) });
  const senders = statementsOf(prod).filter(({ statement }) => statement.resources.includes(target.arn));
  const [sender] = senders.filter(({ statement }) => statement.actions.includes("sqs:SendMessage"));
  expect(sender?.statement.conditions).toMatchObject([{ variable: "aws:SourceArn" }]);
  expect(sender?.statement.conditions?.[0]?.values[0]).toMatch(new RegExp(`:${name}Rule$`));
});

test.each([
  objectKeys.config("r"),
  objectKeys.outcome({ run: "r", phase: "eval:job", step: 3, group: 1, rollout: 2 }),
  objectKeys.part("r", "a".repeat(64)),
  objectKeys.invocation("r", 0, "i"),
  "releases/0/mgrpo.tgz",
  "logs/main/i-1.log",
])("%s triggers nothing", (key) => {
  expect(objectRules().filter((rule) => matches(rule, key))).toEqual([]);
});

const objectRules = () => ofKind(prod, "EventRule").filter(({ inputs }) => inputs.eventPattern !== undefined);

/** Matches as EventBridge does: `*` stands for any characters, slashes included. */
function matches({ inputs }: Resource, key: string): boolean {
  const pattern = JSON.parse(inputs.eventPattern);
  expect(pattern).toMatchObject({ source: ["aws.s3", "mgrpo"], "detail-type": ["Object Created"] });
  expect(pattern.detail.bucket.name).toEqual([ofKind(prod, "Bucket")[0]?.inputs.bucket]);
  return pattern.detail.object.key.some(({ wildcard }: { wildcard: string }) => {
    const escaped = wildcard.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*");
    return new RegExp(`^${escaped}$`).test(key);
  });
}

test("the schedule is deployed turned off; while it is on, it calls tick every minute", () => {
  const { inputs } = resourceNamed(ofKind(prod, "EventRule"), "Clock");
  expect(inputs).toMatchObject({ scheduleExpression: "rate(1 minute)", state: "DISABLED" });
  const target = resourceNamed(ofKind(prod, "EventTarget"), "ClockTarget").inputs;
  expect(target).toMatchObject({ rule: "Clock" });
  // Without an input, the target gets EventBridge's own event.
  expect(target.input).toBeUndefined();
  expect(target.arn).toContain("TickFunction");
  const allowed = resourceNamed(ofKind(prod, "Permission"), "ClockPermission").inputs;
  expect(allowed).toMatchObject({ principal: "events.amazonaws.com", sourceArn: ruleArn("Clock") });
  expect(ofKind(prod, "Schedule")).toEqual([]);
});

test("only tick scales the fleets and turns the schedule off; start-run may turn it on", () => {
  const controlling = statementsOf(prod).filter(({ of, statement }) => {
    return of.endsWith("Role") && statement.actions.some((action) => /^(events|autoscaling):/.test(action));
  });
  const groups = ofKind(prod, "Group").map(({ name }) => `arn:aws:Group:us-east-1:123456789012:${name}`);
  expect(controlling.map(({ of, statement: { actions, resources } }) => ({ of, actions, resources }))).toEqual([
    { of: "StartRunRole", actions: ["events:EnableRule"], resources: [ruleArn("Clock")] },
    {
      ...{ of: "TickRole", actions: ["events:DescribeRule", "events:EnableRule", "events:DisableRule"] },
      resources: [ruleArn("Clock")],
    },
    { of: "TickRole", actions: ["events:PutEvents"], resources: [expect.stringContaining("event-bus/default")] },
    { of: "TickRole", actions: ["autoscaling:SetDesiredCapacity"], resources: groups },
    // AWS offers no narrower resource for this action.
    { of: "TickRole", actions: ["autoscaling:DescribeAutoScalingGroups"], resources: ["*"] },
  ]);
  const without = statementsOf(serverless).flatMap(({ statement }) => statement.actions);
  expect(without.filter((action) => action.startsWith("autoscaling:"))).toEqual([]);
});

test("tick sends events only from source mgrpo; functions delete no objects but checkpoint parts; only tick deletes records, and only those of runs", () => {
  const allowing = (action: string) => statementsOf(prod).filter(({ statement }) => statement.actions.includes(action));
  const conditions = allowing("events:PutEvents").map(({ statement }) => statement.conditions);
  expect(conditions).toEqual([[{ test: "StringEquals", variable: "events:source", values: ["mgrpo"] }]]);
  const parts = ["arn:aws:s3:::ObjectsBucket/runs/*/parts/*"];
  const deleting = allowing("s3:DeleteObject").map(({ of, statement }) => [of, statement.resources]);
  expect(Object.fromEntries(deleting)).toEqual({
    StartRunRole: parts,
    TickRole: parts,
    ScoreRolloutRole: parts,
  });
  const removing = allowing("dynamodb:DeleteItem").map(({ of, statement }) => [of, statement.conditions]);
  expect(removing).toEqual([["TickRole", withinPartitions([tableKeys.run("*").pk])]]);
});

test("no allow statement has a wildcard where the ARN is known", () => {
  const allowing = statementsOf(prod).filter(({ statement }) => statement.effect !== "Deny");
  expect(allowing.length).toBeGreaterThan(30);
  for (const { of, statement } of allowing) {
    expect(
      statement.actions.filter((action) => action.includes("*")),
      of,
    ).toEqual([]);
    if (statement.actions.join() === "autoscaling:DescribeAutoScalingGroups") continue;
    // Only for resources without an ARN yet: objects under a prefix, streams of a log group.
    const open = statement.resources.filter((resource) => resource.includes("*"));
    for (const resource of open)
      expect(resource, of).toMatch(
        /^arn:aws:s3:::ObjectsBucket\/(runs|releases|models|logs\/[a-z]+)\/|:[A-Z]\w+Log:\*$/,
      );
    for (const principal of statement.principals ?? []) expect(principal.identifiers, of).not.toContain("*");
  }
});
