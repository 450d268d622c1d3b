/** @file The functions, each with a role that allows only what it does, and what calls it: object events, the schedule or, for StartRun, a user. */
/// <reference path="../.sst/platform/config.d.ts" />

import { createInbox, type Inbox, receiveFrom } from "./events.ts";
import { connectSchedule, type TickSchedule } from "./schedule.ts";
import { JUDGE_VARIABLE, plainKey } from "./secrets.ts";
import type { Settings } from "./settings.ts";
import { EVENT_FUNCTIONS, type FunctionSize, START_RUN } from "./sizes.ts";
import type { Storage } from "./storage.ts";
import { withinPartitions } from "./worker-policy.ts";
import type { DeployedFleet } from "./workers.ts";

type Permission = sst.aws.FunctionPermissionArgs;

const LOG_DAYS = 30;
/** The user's recipes, as build.mjs compiled them for this deployment. */
const PROJECT = "dist/project";

interface DeployedFunction {
  readonly fn: sst.aws.Function;
  readonly log: aws.cloudwatch.LogGroup;
}

/** A function called by object events. */
export interface EventFunction extends DeployedFunction {
  readonly name: string;
  readonly inbox: Inbox;
}

export interface DeployedFunctions {
  readonly startRun: DeployedFunction;
  readonly tick: EventFunction;
  readonly scoreRollout: EventFunction;
  readonly enqueueEvaluation: EventFunction;
  readonly recordEvaluation: EventFunction;
}

/** What all functions share. */
interface Shared {
  readonly storage: Storage;
  readonly stage: string;
  readonly hasProject: boolean;
  readonly judgeKey: $util.Output<string>;
}

interface Rights {
  readonly permissions: readonly Permission[];
  /** Whether it calls judges, or checks that they can be called. */
  readonly needsJudgeKey?: boolean;
}

interface Spec extends Rights, FunctionSize {
  readonly handler: string;
}

export function createFunctions(
  storage: Storage,
  { stage, hasProject }: Settings,
  schedule: TickSchedule,
  fleets: readonly DeployedFleet[],
  judge: sst.Secret,
): DeployedFunctions {
  const shared: Shared = { storage, stage, hasProject, judgeKey: plainKey(judge) };
  const rights = rightsOn(storage, schedule);

  const startRun = createFunction(shared, "StartRun", {
    handler: "start-run",
    seconds: START_RUN.seconds,
    megabytes: START_RUN.megabytes,
    permissions: [...rights.advanceSteps, rights.switchSchedule("EnableRule")],
    needsJudgeKey: true,
  });
  const tick = createEventFunction(shared, "Tick", "tick", {
    permissions: [
      ...rights.advanceSteps,
      // The records of workers that are long dead.
      { ...rights.records("DeleteItem"), conditions: withinPartitions(["RUN#*"]) },
      rights.switchSchedule("DescribeRule", "EnableRule", "DisableRule"),
      {
        actions: ["events:PutEvents"],
        resources: [aws.cloudwatch.getEventBusOutput({ name: "default" }).arn],
        conditions: [{ test: "StringEquals", variable: "events:source", values: ["mgrpo"] }],
      },
      ...scaling(fleets),
    ],
  });
  const scoreRollout = createEventFunction(shared, "ScoreRollout", "score-rollout", {
    permissions: rights.advanceSteps,
    needsJudgeKey: true,
  });
  const enqueueEvaluation = createEventFunction(shared, "EnqueueEvaluation", "enqueue-evaluation", {
    permissions: [rights.records("GetItem", "PutItem"), rights.findObjects, rights.readObjects],
  });
  const recordEvaluation = createEventFunction(shared, "RecordEvaluation", "record-evaluation", {
    permissions: [rights.records("GetItem", "UpdateItem"), rights.findObjects, rights.readObjects],
  });
  connectSchedule(schedule, tick.fn);
  return { startRun, tick, scoreRollout, enqueueEvaluation, recordEvaluation };
}

function rightsOn({ table, bucket }: Storage, schedule: TickSchedule) {
  const objects = $interpolate`${bucket.arn}/runs/*`;
  const records = (...names: string[]) => ({
    actions: names.map((name) => `dynamodb:${name}`),
    resources: [table.arn],
  });
  // No function lists objects. With s3:ListBucket, a missing object gives 404 instead of 403.
  const findObjects = { actions: ["s3:ListBucket"], resources: [bucket.arn] };
  return {
    records,
    findObjects,
    readObjects: { actions: ["s3:GetObject"], resources: [objects] },
    // Every function that scores also ticks, and a tick may close a step and delete weights that nothing refers to.
    advanceSteps: [
      records("GetItem", "Query", "UpdateItem", "PutItem"),
      findObjects,
      { actions: ["s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"], resources: [objects] },
      { actions: ["s3:DeleteObject"], resources: [$interpolate`${bucket.arn}/runs/*/parts/*`] },
    ],
    switchSchedule: (...names: string[]) => ({
      actions: names.map((name) => `events:${name}`),
      resources: [schedule.rule.arn],
    }),
  };
}

function createFunction({ storage, stage, hasProject, judgeKey }: Shared, name: string, spec: Spec): DeployedFunction {
  const { handler, seconds, megabytes, permissions, needsJudgeKey } = spec;
  const log = new aws.cloudwatch.LogGroup(`${name}Log`, {
    name: `/mgrpo/${stage}/${handler}`,
    retentionInDays: LOG_DAYS,
  });
  const writeLog = {
    actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
    resources: [$interpolate`${log.arn}:*`],
  };
  const fn = new sst.aws.Function(name, {
    handler: `functions/lambda/${handler}.handler`,
    runtime: "nodejs22.x",
    architecture: "arm64",
    memory: `${megabytes} MB`,
    timeout: `${seconds} seconds`,
    // Handlers log JSON lines; this makes Lambda do the same.
    logging: { format: "json", logGroup: log.name },
    environment: {
      MGRPO_TABLE: storage.table.name,
      MGRPO_BUCKET: storage.bucket.name,
      ...(needsJudgeKey && { [JUDGE_VARIABLE]: judgeKey }),
      ...(hasProject && { MGRPO_PROJECT: "/var/task/project" }),
    },
    ...(hasProject && { copyFiles: [{ from: PROJECT, to: "project" }] }),
    permissions: [...permissions, writeLog],
    transform: {
      role(args) {
        // SST's default lets the whole account assume the role, and the role write to every log.
        args.assumeRolePolicy = aws.iam.assumeRolePolicyForPrincipal({ Service: "lambda.amazonaws.com" });
        args.managedPolicyArns = [];
      },
    },
  });
  return { fn, log };
}

/** A function and the queue that delivers its events. */
function createEventFunction(
  shared: Shared,
  name: string,
  handler: keyof typeof EVENT_FUNCTIONS,
  { permissions, needsJudgeKey }: Rights,
): EventFunction {
  const { pattern, batch, seconds, megabytes } = EVENT_FUNCTIONS[handler];
  const inbox = createInbox(name, shared.storage.bucket, pattern, seconds);
  const { fn, log } = createFunction(shared, name, {
    handler,
    seconds,
    megabytes,
    permissions: [...permissions, receiveFrom(inbox)],
    ...(needsJudgeKey !== undefined && { needsJudgeKey }),
  });
  inbox.queue.subscribe(fn.arn, { batch: { size: batch, partialResponses: true } });
  return { name, fn, log, inbox };
}

/** AWS has no resource-level permission for DescribeAutoScalingGroups, hence `*`. */
function scaling(fleets: readonly DeployedFleet[]): Permission[] {
  if (fleets.length === 0) return [];
  return [
    { actions: ["autoscaling:SetDesiredCapacity"], resources: fleets.map(({ group }) => group.arn) },
    { actions: ["autoscaling:DescribeAutoScalingGroups"], resources: ["*"] },
  ];
}
