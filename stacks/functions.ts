/** @file The functions, each with a role that allows what it does and nothing else, and what wakes it: objects, or the clock. */
/// <reference path="../.sst/platform/config.d.ts" />
import { type Clock, setClock } from "./clock.ts";
import { createInbox, type Inbox, receiveFrom } from "./events.ts";
import { JUDGE_VARIABLE, plainKey } from "./secrets.ts";
import type { Settings } from "./settings.ts";
import { START_RUN, WOKEN } from "./sizes.ts";
import type { Storage } from "./storage.ts";
import type { MadeFleet } from "./workers.ts";

type Permission = sst.aws.FunctionPermissionArgs;

const LOG_DAYS = 30;
/** Rewards of the user's recipes, as build.mjs compiled them for this deployment. */
const PROJECT = "dist/project";

interface Made {
  readonly fn: sst.aws.Function;
  readonly log: aws.cloudwatch.LogGroup;
}

export interface Woken extends Made {
  readonly name: string;
  readonly inbox: Inbox;
}

export interface Functions {
  readonly startRun: Made;
  readonly tick: Woken;
  readonly scoreRollout: Woken;
  readonly enqueueEvaluation: Woken;
  readonly recordEvaluation: Woken;
}

interface Spec {
  readonly handler: string;
  readonly seconds: number;
  readonly megabytes: number;
  readonly permissions: readonly Permission[];
  /** Whether it asks judges, or sees to it that they can be asked. */
  readonly judges?: boolean;
}

export function createFunctions(
  { table, bucket }: Storage,
  { stage, project }: Settings,
  clock: Clock,
  fleets: readonly MadeFleet[],
  judge: sst.Secret,
): Functions {
  const objects = $interpolate`${bucket.arn}/runs/*`;
  const records = (...names: string[]) => ({
    actions: names.map((name) => `dynamodb:${name}`),
    resources: [table.arn],
  });
  // Listing is never used; s3:ListBucket only makes a missing object answer 404 instead of 403.
  const find = { actions: ["s3:ListBucket"], resources: [bucket.arn] };
  const read = { actions: ["s3:GetObject"], resources: [objects] };
  // Whatever scores also ticks, and whatever ticks may close a step and delete weights that nobody refers to.
  const moving = [
    records("GetItem", "Query", "UpdateItem", "PutItem"),
    find,
    { actions: ["s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"], resources: [objects] },
    { actions: ["s3:DeleteObject"], resources: [$interpolate`${bucket.arn}/runs/*/parts/*`] },
  ];
  const turn = (...names: string[]) => ({
    actions: names.map((name) => `events:${name}`),
    resources: [clock.rule.arn],
  });
  const key = plainKey(judge);

  const create = (name: string, { handler, seconds, megabytes, permissions, judges }: Spec): Made => {
    const log = new aws.cloudwatch.LogGroup(`${name}Log`, {
      name: `/mgrpo/${stage}/${handler}`,
      retentionInDays: LOG_DAYS,
    });
    const write = {
      actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
      resources: [$interpolate`${log.arn}:*`],
    };
    const fn = new sst.aws.Function(name, {
      handler: `functions/${handler}.handler`,
      runtime: "nodejs22.x",
      architecture: "arm64",
      memory: `${megabytes} MB`,
      timeout: `${seconds} seconds`,
      // The handlers write lines of JSON; so does Lambda then.
      logging: { format: "json", logGroup: log.name },
      ...(project && { copyFiles: [{ from: PROJECT, to: "project" }] }),
      environment: {
        MGRPO_TABLE: table.name,
        MGRPO_BUCKET: bucket.name,
        ...(project && { MGRPO_PROJECT: "/var/task/project" }),
        ...(judges && { [JUDGE_VARIABLE]: key }),
      },
      permissions: [...permissions, write],
      transform: {
        role(args) {
          // SST's own would let the whole account assume the role, and the role write to every log.
          args.assumeRolePolicy = aws.iam.assumeRolePolicyForPrincipal({ Service: "lambda.amazonaws.com" });
          args.managedPolicyArns = [];
        },
      },
    });
    return { fn, log };
  };
  /** A function and the queue through which events wake it. */
  const woken = (name: string, handler: keyof typeof WOKEN, rights: Pick<Spec, "permissions" | "judges">): Woken => {
    const { pattern, batch, ...given } = WOKEN[handler];
    const inbox = createInbox(name, bucket, pattern, given.seconds);
    const permissions = [...rights.permissions, receiveFrom(inbox)];
    const made = create(name, { handler, ...given, ...rights, permissions });
    inbox.queue.subscribe(made.fn.arn, { batch: { size: batch, partialResponses: true } });
    return { name, ...made, inbox };
  };

  const startRun = create("StartRun", {
    ...{ handler: "start-run", ...START_RUN },
    permissions: [...moving, turn("EnableRule")],
    judges: true,
  });
  const tick = woken("Tick", "tick", {
    permissions: [...moving, turn("DescribeRule", "EnableRule", "DisableRule"), ...scaling(fleets)],
    judges: true,
  });
  const scoreRollout = woken("ScoreRollout", "score-rollout", { permissions: moving, judges: true });
  const enqueueEvaluation = woken("EnqueueEvaluation", "enqueue-evaluation", {
    permissions: [records("GetItem", "PutItem"), find, read],
  });
  const recordEvaluation = woken("RecordEvaluation", "record-evaluation", {
    permissions: [records("GetItem", "UpdateItem"), find, read],
  });
  setClock(clock, tick.fn);
  return { startRun, tick, scoreRollout, enqueueEvaluation, recordEvaluation };
}

/** Looking at groups is allowed for all or none: AWS knows no ARN there. */
function scaling(fleets: readonly MadeFleet[]): Permission[] {
  if (fleets.length === 0) return [];
  return [
    { actions: ["autoscaling:SetDesiredCapacity"], resources: fleets.map(({ group }) => group.arn) },
    { actions: ["autoscaling:DescribeAutoScalingGroups"], resources: ["*"] },
  ];
}
