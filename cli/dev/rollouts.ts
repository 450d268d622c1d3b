/**
 * @file K rollouts of one question by the team before training, in this process: the group that a training step would have, scored and
 * finalized by the same functions. Nothing is trained.
 */
import { withAnySignal } from "../../core/any-signal.ts";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { GroupRecord } from "../../core/contracts/records.ts";
import type { Outcome } from "../../core/contracts/rollout.ts";
import { DELEGATE } from "../../core/conversation/toolbox.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { recordScores } from "../../core/training/writes.ts";
import type { AppRunner } from "../../gpu-workers/gateway/app-rollout.ts";
import { wholeTeam } from "../../gpu-workers/gateway/whole-team.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import { cancelable } from "../../gpu-workers/limits.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { inParallel } from "../../gpu-workers/parallel.ts";
import type { HostedAgent } from "../../gpu-workers/rollouts/agent.ts";
import { attemptRollout } from "../../gpu-workers/rollouts/attempt-rollout.ts";
import { trainingSampling } from "../../gpu-workers/rollouts/sampling.ts";
import { reportingUnhandledRejections, unhandledToolRejection } from "../../gpu-workers/unhandled-rejections.ts";
import type { Tree } from "../../ui/views.ts";
import { readInvocations, type StoredRollout } from "../conversations.ts";
import type { Bases } from "../local/base-models.ts";
import { type HostedTeam, withHostedTeam } from "../local/hosted-team.ts";
import { readGroups, readRun, readStep } from "../local/read-records.ts";
import { loadTrees } from "../show/load.ts";

export interface TriedGroup {
  readonly group: GroupRecord;
  readonly rollouts: readonly StoredRollout[];
  /** The group as `show` draws it. */
  readonly trees: readonly Tree[];
  /** Agent -> the tools that it was offered. */
  readonly offered: ReadonlyMap<string, ReadonlySet<string>>;
  /** Agents that got a request, also in a rollout that was lost. */
  readonly called: ReadonlySet<string>;
  /** What the app threw, and the unhandled rejections of the app and the tools, in order. */
  readonly thrown: readonly Thrown[];
  /** Warnings and errors of the gateway. */
  readonly gatewayWarnings: readonly string[];
  /** Why scoring halted the run (functions/scoring.ts); no further rollout starts then. Undefined: it did not. */
  readonly halted: string | undefined;
}

interface Thrown {
  /** Such as `the app threw`. */
  readonly what: string;
  readonly error: unknown;
}

/** What is recorded of the requests to agents, as in `TriedGroup`. */
interface Requests {
  readonly offered: ReadonlyMap<string, Set<string>>;
  readonly called: Set<string>;
}

/** The result of sampling a group. */
interface Sampled {
  readonly outcomes: readonly Outcome[];
  readonly halted: string | undefined;
}

/** A rollout that the judge gives no verdict on is lost. @param onDone called with the number of finished rollouts. */
export async function tryQuestion(
  config: RunConfig,
  bases: Bases,
  question: Question,
  note: string | undefined,
  onDone: (finished: number) => void,
  signal: AbortSignal,
): Promise<TriedGroup> {
  const thrown: Thrown[] = [];
  const gatewayWarnings: string[] = [];
  const questions = { train: [question], heldOut: [] };
  const observe = (runner: AppRunner) => keepingErrors(runner, thrown);
  const reports = {
    log: createLog(() => {}),
    onUnhandledToolRejection: (error: unknown, tool: string) =>
      thrown.push({ what: unhandledToolRejection(tool), error }),
    onGatewayWarning: (warning: string) => gatewayWarnings.push(warning),
  };
  return withHostedTeam(config, { bases, questions, ...reports, observe }, async (team) => {
    const offered = new Map(Object.entries(config.agents).map(([name, agent]) => [name, toolsOf(config, agent)]));
    const called = new Set<string>();
    const { outcomes, halted } = await rollOut(team, question, { offered, called }, onDone, signal);
    const { store } = team.run;
    const [group] = await readGroups(store, await readStep(store, config.run, 0));
    if (!group) throw new MgrpoError("record-damaged", "the step has no group");
    const rollouts = await Promise.all(
      outcomes.map(async (outcome) => ({ outcome, invocations: await readInvocations(store, outcome) })),
    );
    const trees = await loadTrees(store, config, { step: 0, group: 0 }, () => note);
    return { group, rollouts, trees, offered, called, thrown, gatewayWarnings, halted };
  });
}

/** The tools that this program offers an agent; none where an app does. */
const toolsOf = ({ runner }: RunConfig, { tools, delegates }: AgentConfig): Set<string> =>
  new Set(runner === "native" ? [...tools, ...(delegates.length > 0 ? [DELEGATE] : [])] : []);

async function rollOut(
  hosted: HostedTeam,
  question: Question,
  requests: Requests,
  onDone: (finished: number) => void,
  signal: AbortSignal,
): Promise<Sampled> {
  const { run, agents, app, score } = hosted;
  const { config, store } = run;
  // Random streams are named as for the first group of training's first step: the samples are the same if training draws this question first.
  const purpose = [config.seed, "sample"];
  const watched = new Map([...agents].map(([name, agent]) => [name, recordingRequests(agent, requests)]));
  const team = wholeTeam(run, watched, purpose, app);
  const versions = Object.fromEntries([...agents.keys()].map((name) => [name, 0]));
  const indices = Array.from({ length: config.rolloutsPerQuestion }, (_, rollout) => rollout);
  let finished = 0;
  let halted: string | undefined;
  const failures = new Map<number, string>();
  const outcomes = await inParallel(indices, team.main.config.engine.slots, async (rollout, _index, failed) => {
    if (halted !== undefined) return [];
    const address = { run: run.name, phase: "train", step: 0, group: 0, rollout };
    const plan = { address, question, versions, ...trainingSampling(config), purpose, closedBook: false };
    const outcome = await withAnySignal([signal, failed], (either) => attemptRollout(team, plan, either, () => false));
    const key = objectKeys.outcome(address);
    await store.objects.commit(key, recordBytes(outcome));
    await cancelable(score({ key }), signal).catch((error: unknown) => {
      if (!isMgrpoError(error, "judge-failed")) throw error;
      failures.set(rollout, error.message);
    });
    const { status, reason } = await readRun(store, run.name);
    if (status === "halted") halted = reason;
    finished += 1;
    onDone(finished);
    return [outcome];
  });
  if (halted === undefined) await excludeUnscored(hosted, failures);
  return { outcomes: outcomes.flat(), halted };
}

/**
 * In training, a judge that gave no verdict is asked again. Here the rollout is lost, and the others are shown with their advantages.
 * @param failures of the judge, by rollout.
 */
async function excludeUnscored({ run, tick }: HostedTeam, failures: ReadonlyMap<number, string>): Promise<void> {
  const { name, store, config } = run;
  const [group] = await readGroups(store, await readStep(store, name, 0));
  const indices = Array.from({ length: config.rolloutsPerQuestion }, (_, rollout) => rollout);
  const unscored = indices.filter((rollout) => group?.rollouts[rollout] === undefined);
  if (unscored.length === 0) return;
  for (const rollout of unscored) {
    const excluded = `judge: ${failures.get(rollout) ?? "no verdict"}`;
    await store.table.update(recordScores({ run: name, step: 0, group: 0 }, new Map([[rollout, { excluded }]])));
  }
  await tick();
}

/** Notes that an agent is called, and the tools that an app offers it. */
const recordingRequests = (agent: HostedAgent, { offered, called }: Requests): HostedAgent => ({
  ...agent,
  onProgress(progress) {
    if (progress.kind !== "prompt") return;
    called.add(agent.name);
    for (const tool of progress.tools ?? []) offered.get(agent.name)?.add(tool);
  },
});

/** Keeps what the app throws, and the rejections that it does not handle. */
function keepingErrors(app: AppRunner, thrown: Thrown[]): AppRunner {
  const keep = (error: unknown) => thrown.push({ what: "the app threw", error });
  const { run } = reportingUnhandledRejections(app, keep);
  return {
    run: (call, signal) =>
      run(call, signal).catch((error: unknown) => {
        if (!signal.aborted) keep(error);
        throw error;
      }),
  };
}
