/**
 * @file The trainer of one policy, under the name of the agent that owns it: one version per step, always trained from the exact bytes of
 * the previous version.
 *
 *     step s open ──> claim taken ──> manifest s ──> gradient of groups as they are finalized (parts.ts)
 *     step s ready ─────────────────────────────────> gradient of the last ones ──> Adam ──> files ──> manifest s+1 (If-None-Match)
 *
 * Steps are trained in order, and step s starts from version s, even with `staleness`, when older versions sampled its rollouts.
 *
 *     a step    waits for: RUN to point to it            unblocked by: tick
 *     a claim   waits for: no trainer of this agent      unblocked by: its release; in a ready step, its holder's death
 *     a call    waits for: the engine                    unblocked by: its answer; after limits.trainingSeconds, the claim is yielded
 *
 * The manifest is the version: a trainer that loses the race for it adopts the winner's, whatever its engine holds. AGENT.version caches
 * it; the tick that finds the manifest advances the cache.
 */

import type { Manifest, TrainingStats } from "../../core/contracts/checkpoint.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { referenceVersion } from "../../core/training/reference.ts";
import { type ExpiredVersion, expiredParts, readExpiredVersion } from "../../core/training/retention.ts";
import { ageOf, versionAfter } from "../../core/training/step-plan.ts";
import { endRun } from "../../core/training/writes.ts";
import type { BusyMeter } from "../busy.ts";
import { replaceFiles } from "../checkpoints.ts";
import { haltIfRefused } from "../halt.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import type { RunSnapshot, StepWatch } from "../liveness/watch.ts";
import type { RunContext } from "../run-context.ts";
import { batchParts } from "./parts.ts";
import { agentsOfStep } from "./step-config.ts";
import { trainStep } from "./train-step.ts";
import { TrainedTokenLog } from "./trained-token-log.ts";
import { openTrainerClaim, type TrainerClaim } from "./trainer-claim.ts";
import { type TrainerParts, TrainerState } from "./trainer-state.ts";
import type { TrajectoryCache } from "./trajectories.ts";

/**
 * Before a batch's first optimizer step, sampler and trainer agree if no ratio deviates from 1 by more than this. The sampler of a quantized
 * base may round activations too; its KL is watched instead (cli/warnings.ts).
 */
const MAX_RATIO_DEVIATION = 1e-3;

export interface TrainRole extends TrainerParts {
  readonly observer: WorkerObserver;
  readonly watch: StepWatch;
  readonly trajectories: TrajectoryCache;
  readonly meter: BusyMeter;
  /** Called with the published version that a step starts from. */
  prepare(version: number): Promise<void>;
  /** Called with the version that a step makes, once this trainer or another has published it. */
  published(version: number): Promise<void>;
}

type TrainResult = "published" | "replaced" | "halted" | "stalled";

/** The state of a training loop. */
interface TrainLoop {
  readonly role: TrainRole;
  readonly claim: TrainerClaim;
  readonly trainer: TrainerState;
  readonly signal: AbortSignal;
  /** The newest step that is trained: the version that it makes is published. */
  lastStep: number;
  /** Whether this worker held the claim when it last looked. */
  hasClaim: boolean;
}

/** Trains step after step until the signal aborts, then rejects with `canceled`. */
export async function runTraining(role: TrainRole, signal: AbortSignal): Promise<void> {
  const { run, agent, worker, observer } = role;
  const claim = openTrainerClaim(run, agent, worker, observer);
  const trainer = new TrainerState(role);
  const loop: TrainLoop = { role, claim, trainer, signal, lastStep: -1, hasClaim: false };
  let isCanceled = false;
  try {
    for (;;) await workOnStep(loop, await nextStep(loop)).catch((error: unknown) => haltOrThrow(role, error));
  } catch (error) {
    isCanceled = isMgrpoError(error, "canceled");
    throw error;
  } finally {
    try {
      await trainer.telemetry;
      await trainer.close();
    } finally {
      // A crash keeps the claim, so that the worker that takes it over counts a takeover.
      if (isCanceled) await claim.release();
    }
  }
}

/** Halts the run if a service refused a call, such as one that opens a version to sample; otherwise throws the error. */
async function haltOrThrow({ run, watch }: TrainRole, error: unknown): Promise<void> {
  if (!(await haltIfRefused(run, error))) throw error;
  await watch.refresh();
}

/** The current step, once it is one that this agent trains and has not yet trained. */
function nextStep({ role: { agent, watch }, signal, lastStep }: TrainLoop): Promise<StepRecord> {
  return watch.until(({ run, step }) => {
    if (run.status !== "running" || !step || step.state === "closed") return undefined;
    return step.trained.includes(agent) && step.step > lastStep ? step : undefined;
  }, signal);
}

async function workOnStep(loop: TrainLoop, step: StepRecord): Promise<void> {
  const { role, claim, signal } = loop;
  const { run, agent, watch, checkpoints, trajectories } = role;
  const { pollSeconds, heartbeatSeconds, leaseSeconds } = run.config.liveness;
  const isReady = step.state === "ready";
  const isSame = ({ step: now }: RunSnapshot) => now?.step === step.step && now.state === step.state;
  const pause = (seconds: number) => watch.pause(seconds, (now) => (isSame(now) ? undefined : now), signal);
  const version = versionAfter(step);

  await role.prepare(version - 1);
  // An open step is not urgent: the pause leaves the store to the workers that claim rollouts.
  if (!isReady) await pause(pollSeconds);
  // A worker that held the claim need not check: if the version is published already, its commit of the manifest loses.
  const isPublished = isReady && !loop.hasClaim && (await checkpoints.find(agent, version)) !== undefined;
  loop.hasClaim = !isPublished && (await claim.acquire(isReady));
  if (isPublished) await finishStep(loop, step);
  else if (loop.hasClaim) await train(loop, step);
  else await pause(isReady ? heartbeatSeconds : leaseSeconds / 2);
  trajectories.dropBefore(step.step);
}

async function train(loop: TrainLoop, step: StepRecord): Promise<void> {
  const { run, watch } = loop.role;
  const result = await resultOf(trainVersion(loop.role, loop.trainer, step, loop.signal), run);
  if (result === "halted") await watch.refresh();
  if (result === "stalled") await abandonStep(loop);
  loop.hasClaim = result === "published" || result === "halted";
  if (result !== "published") return;
  watch.expectChange();
  await finishStep(loop, step);
}

/** Leaves the step to another worker, or to this one after one lease period. */
async function abandonStep({ role: { run }, claim, signal }: TrainLoop): Promise<void> {
  await claim.yield();
  await run.store.clock.sleep(run.config.liveness.leaseSeconds, signal);
}

async function finishStep(loop: TrainLoop, step: StepRecord): Promise<void> {
  loop.lastStep = step.step;
  await loop.role.published(versionAfter(step));
}

/**
 * `replaced`: another worker took over the claim, or the step was closed with another trainer's version. `halted`: a service refused, or
 * the step cannot be trained (its loss or gradient is not finite), and the run is halted for that reason. `stalled`: a call to the engine
 * took too long, or the engine's thread ended.
 */
async function resultOf(training: Promise<void>, run: RunContext): Promise<TrainResult> {
  try {
    await training;
    return "published";
  } catch (error) {
    if (isMgrpoError(error, "claim-lost", "step-closed")) return "replaced";
    if (isMgrpoError(error, "deadline", "worker-unavailable")) {
      run.log.warn("the training step is abandoned", { code: error.code, error: error.message });
      return "stalled";
    }
    if (isMgrpoError(error, "run-halted"))
      await run.store.table.update(endRun(run.name, { code: "untrainable", reason: error.message }));
    else if (!(await haltIfRefused(run, error))) throw error;
    return "halted";
  }
}

async function trainVersion(
  role: TrainRole,
  trainer: TrainerState,
  step: StepRecord,
  signal: AbortSignal,
): Promise<void> {
  const { run, agent, checkpoints, meter } = role;
  const version = versionAfter(step);
  const base = await checkpoints.manifest(agent, version - 1);
  const trainedBy = agentsOfStep(run.config, agent, step);
  const { kl } = run.config.algorithm;
  const { stats, trained, files, perAgent, tokens } = await trainer.use(base, async (engine) => {
    const reference =
      kl.coefficient > 0 ? meter.trainer(await trainer.reference(referenceVersion(kl, version - 1))) : undefined;
    const tokens = new TrainedTokenLog();
    const observed = trainedBy.map((one) => ({ ...one, config: { ...one.config, onTokens: tokens.add } }));
    const parts = batchParts(role, step, signal);
    const result = { ...(await trainStep(meter.trainer(engine), parts, observed, reference)), tokens };
    if (!result.trained) return { ...result, files: base.files };
    return { ...result, files: replaceFiles(base.files, await trainer.save()) };
  });
  const manifest: Manifest = {
    run: run.name,
    agent,
    version,
    trained,
    files,
    stats: stats.trajectories > 0 ? stats : null,
    ...(perAgent && { roles: perAgent }),
    seconds: meter.takeSeconds(),
  };
  await discardExpired(role, manifest);
  const won = await checkpoints.publish(manifest);
  trainer.telemetry = trainer.telemetry.then(() => tokens.store(run, step.step, agent));
  const { trajectories } = stats;
  run.log.info(won ? "published" : "already published by another worker", {
    agent,
    version,
    step: step.step,
    trained,
    trajectories,
  });
  warnOnMismatch(role, step, stats);
}

/** Stale rollouts differ by design: their KL is in the step line instead. */
function warnOnMismatch({ run, agent }: TrainRole, record: StepRecord, { maxRatioDeviation = 0 }: TrainingStats): void {
  if (ageOf(run.config, record, agent) > 0) return;
  const { step } = record;
  const limit = MAX_RATIO_DEVIATION;
  const isQuantized = run.config.agents[agent]?.engine.quantization !== "none";
  if (maxRatioDeviation > limit && !isQuantized)
    run.log.warn("sampler and trainer disagree", { agent, step, maxRatioDeviation, limit });
}

/**
 * Lets the engine delete what an expired version keeps on a server. This happens before `next`, which makes it expire, is published: once
 * `next` is, the expired version's files are deleted too. The version that this step trained from stays, so a crash in between costs nothing.
 * A failure costs space on the server, and never the trained version.
 */
async function discardExpired(role: TrainRole, next: Manifest): Promise<void> {
  const { run, agent } = role;
  if (!role.engine.discard) return;
  const expired = await readExpiredVersion(run.store.table, run.config, next.version);
  if (!expired) return;
  try {
    const files = await filesToDiscard(role, expired, next);
    if (files) await role.engine.discard(files);
  } catch (error) {
    const { version } = expired;
    run.log.warn("an expired version stays on the server", { agent, version, error: String(error) });
  }
}

/** The expired version's files. Undefined if kept versions, or the next one, have all its parts. */
async function filesToDiscard(
  { agent, checkpoints }: TrainRole,
  { version, neighbors }: ExpiredVersion,
  next: Manifest,
): Promise<CheckpointFiles | undefined> {
  const others = neighbors.filter((other) => other < next.version);
  const kept = await Promise.all(others.map((other) => checkpoints.manifest(agent, other)));
  const old = await checkpoints.manifest(agent, version);
  if (expiredParts(old, [...kept, next]).length === 0) return undefined;
  return await checkpoints.files(old, "inference");
}
