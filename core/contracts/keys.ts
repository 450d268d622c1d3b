/** @file The S3 keys and the DynamoDB keys of runs. No key contains an attempt, a fence or a time. */
import type { RolloutAddress } from "./rollout.ts";

/** At least six digits, so that the keys of the first million steps sort in order. */
const padded = (n: number) => String(n).padStart(6, "0");

/** S3 keys, all under `runs/<run>/`. */
export const objectKeys = {
  config: (run: string) => `runs/${run}/config.json`,
  questions: (run: string) => `runs/${run}/questions.json`,
  /** Content-addressed: weights, optimizer states, base files. */
  part: (run: string, sha256: string) => `runs/${run}/parts/${sha256}`,
  /** Evaluation outcomes have a different prefix from training outcomes, because the `*` of EventBridge patterns also matches slashes. */
  outcome: ({ run, phase, step, group, rollout }: RolloutAddress) =>
    phase === "train"
      ? `runs/${run}/outcomes/${padded(step)}/${group}/${rollout}.json`
      : `runs/${run}/evaluations/${phase.slice(5)}/rollouts/${group}/${rollout}.json`,
  invocation: (run: string, step: number, id: string) => `runs/${run}/invocations/${padded(step)}/${id}.json`,
  manifest: (run: string, agent: string, version: number) => `runs/${run}/manifests/${agent}/${padded(version)}.json`,
  team: (run: string, team: number) => `runs/${run}/teams/${padded(team)}.json`,
  /** `subject`: the SHA-256 of the object that is judged, an outcome or an invocation. */
  verdict: (run: string, subject: string, judge: string) => `runs/${run}/verdicts/${subject}-${judge}.json`,
  /** The cached answer of a tool's backend, by the request's hash. */
  toolAnswer: (run: string, sha256: string) => `runs/${run}/tools/${sha256}.json`,
  evaluation: (run: string, job: string) => `runs/${run}/evaluations/${job}/result.json`,
  /** For display only: nothing that is trained, scored or hashed depends on it (telemetry.ts). */
  stepTelemetry: (run: string, step: number, worker: string) =>
    `runs/${run}/telemetry/${padded(step)}/workers/${worker}.json`,
  trainedTokens: (run: string, step: number, agent: string) =>
    `runs/${run}/telemetry/${padded(step)}/tokens/${agent}.safetensors`,
};

/** Whether the object is an outcome or invocation (of training or an evaluation) or telemetry. All of these expire (core/training/retention.ts). */
export function isConversationKey(key: string): boolean {
  return /^runs\/[^/]+\/(?:outcomes|invocations|telemetry|evaluations\/[^/]+\/rollouts)\//.test(key);
}

/** The kinds of object whose creation calls a function. */
export type ObjectKind = "outcome" | "manifest" | "team" | "evaluation";

/** The kind and run of an object, used to route events. Undefined for keys that call no function. */
export function parseObjectKey(key: string): { run: string; kind: ObjectKind; key: string } | undefined {
  const match =
    /^runs\/([^/]+)\/(?:(outcomes)\/\d{6,}\/\d+\/\d+|(manifests)\/[^/]+\/\d{6,}|(teams)\/\d{6,}|(evaluations)\/[^/]+\/result)\.json$/.exec(
      key,
    );
  const run = match?.[1];
  if (!match || run === undefined) return undefined;
  const kind = match[2] ? "outcome" : match[3] ? "manifest" : match[4] ? "team" : "evaluation";
  return { run, kind, key };
}

/** Address of a training outcome's key, the inverse of `objectKeys.outcome`. */
export function parseOutcomeKey(key: string): RolloutAddress | undefined {
  const match = /^runs\/([^/]+)\/outcomes\/(\d{6,})\/(\d+)\/(\d+)\.json$/.exec(key);
  if (!match) return undefined;
  const [, run = "", step, group, rollout] = match;
  return { run, phase: "train", step: Number(step), group: Number(group), rollout: Number(rollout) };
}

export interface TableKey {
  readonly pk: string;
  readonly sk: string;
}

/** DynamoDB keys. A group has its own partition, so that the writes of a step spread over partitions. */
export const tableKeys = {
  /** The deployment that the table belongs to, if any. */
  deployment: { pk: "DEPLOYMENT", sk: "DEPLOYMENT" },
  /** The runs that are ticked (core/training/run-list.ts). */
  listed: (run: string): TableKey => ({ pk: "RUNS", sk: `RUN#${run}` }),
  archived: (run: string): TableKey => ({ pk: "ARCHIVE", sk: `RUN#${run}` }),
  run: (run: string): TableKey => ({ pk: `RUN#${run}`, sk: "RUN" }),
  step: (run: string, step: number): TableKey => ({ pk: `RUN#${run}`, sk: `STEP#${padded(step)}` }),
  agent: (run: string, agent: string): TableKey => ({ pk: `RUN#${run}`, sk: `AGENT#${agent}` }),
  calls: (run: string, agent: string): TableKey => ({ pk: `RUN#${run}`, sk: `CALLS#${agent}` }),
  worker: (run: string, worker: string): TableKey => ({ pk: `RUN#${run}`, sk: `WORKER#${worker}` }),
  /** The record of a worker that died long ago. */
  past: (run: string, worker: string): TableKey => ({ pk: `RUN#${run}`, sk: `PAST#${worker}` }),
  job: (run: string, job: string): TableKey => ({ pk: `RUN#${run}`, sk: `JOB#${job}` }),
  fleet: (run: string, fleet: string): TableKey => ({ pk: `RUN#${run}`, sk: `FLEET#${fleet}` }),
  toolSpending: (run: string): TableKey => ({ pk: `RUN#${run}`, sk: "TOOLS" }),
  agentSpending: (run: string): TableKey => ({ pk: `RUN#${run}`, sk: "AGENTS" }),
  /** Several records: see `JUDGE_SHARDS` in core/training/api-spending.ts. */
  judgeSpending: (run: string, shard: number): TableKey => ({ pk: `RUN#${run}`, sk: `JUDGES#${shard}` }),
  /** In its own partition: there are as many verdicts as trajectories. */
  verdict: (run: string, subject: string, judge: string): TableKey => ({
    pk: `VERDICT#${run}#${subject}`,
    sk: `JUDGE#${judge}`,
  }),
  group: (run: string, step: number, group: number): TableKey => ({
    pk: `GROUP#${run}#${padded(step)}#${group}`,
    sk: "GROUP",
  }),
};

/** Whether an item with this partition key belongs to a run or to a list of runs: every item of `tableKeys` but the deployment. */
export function isRunPartition(pk: string): boolean {
  return /^(?:RUNS$|ARCHIVE$|RUN#|GROUP#|VERDICT#)/.test(pk);
}

/** Sort-key prefixes for queries of the run lists and of a run's items. */
export const tablePrefixes = {
  runs: "RUN#",
  agents: "AGENT#",
  workers: "WORKER#",
  past: "PAST#",
  jobs: "JOB#",
  judgeSpending: "JUDGES#",
  fleets: "FLEET#",
  steps: "STEP#",
};
