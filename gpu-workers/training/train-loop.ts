/**
 * @file The trainer of one agent (design row 7): one version per step, always from the bytes of the version before.
 *
 *     step open ──> place taken ──> manifest v ──> gradient of groups as they are finalized (parts.ts)
 *     step ready ─────────────────────────────────> of the last ones ──> Adam ──> files ──> manifest v+1 (If-None-Match)
 *                                                                                   └──> sampled from already (policy.ts)
 *
 *     a step   waits for: STEP open or ready                 unblocked by: tick
 *     a place  waits for: no trainer of this agent           unblocked by: its release; in a ready step, its death
 *
 * The manifest is the version: who loses the race for it adopts the winner's, whatever this engine holds. AGENT.version, a cache of it, is
 * moved by the tick that finds it.
 */
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Trainer } from "../../core/ports.ts";
import { optimizerAt, progressAt } from "../../core/training/learning-rate.ts";
import { expiredParts, expiredVersion, neighbours } from "../../core/training/retention.ts";
import { endRun } from "../../core/training/writes.ts";
import type { BusyMeter } from "../busy.ts";
import { type Checkpoints, OPTIMIZER, replaceFiles, weightsSha256 } from "../checkpoints.ts";
import { haltedBy } from "../halt.ts";
import type { Observer } from "../liveness/observer.ts";
import type { Seen, StepWatch } from "../liveness/watch.ts";
import { engineOptions } from "../policy.ts";
import type { Run } from "../run.ts";
import { callJournal } from "./call-journal.ts";
import { onDistinct } from "./distinct.ts";
import { batchParts } from "./parts.ts";
import { trainStep } from "./train-step.ts";
import { type Held, trainerPlace } from "./trainer-place.ts";
import type { Trajectories } from "./trajectories.ts";

/** Before the first optimizer step of a batch, sampler and trainer agree to this. */
const MAX_RATIO_DEVIATION = 1e-3;

export interface TrainRole {
  readonly run: Run;
  readonly agent: string;
  readonly engine: PolicyEngine;
  readonly checkpoints: Checkpoints;
  readonly worker: string;
  readonly observer: Observer;
  readonly watch: StepWatch;
  readonly trajectories: Trajectories;
  readonly meter: BusyMeter;
  /** Told of the version that a step is sampled from and trained on: it is published. */
  prepare(version: number): Promise<void>;
  /** Told of the files of a version that is about to be published; not after a takeover. */
  foreseen(version: number, files: Files): void;
  /** Told of each version that is published, whoever did it. */
  published(version: number, step: number): Promise<void>;
}

export async function runTraining(role: TrainRole, signal: AbortSignal): Promise<void> {
  const { run, agent, watch, checkpoints } = role;
  const { liveness } = run.config;
  const place = trainerPlace(run, agent, role.worker, role.observer);
  const engine = openTrainerState(role);
  let done = -1;
  let mine = false;
  let stopped = false;
  try {
    for (;;) {
      const step = await watch.until(({ run: now, step }) => {
        if (now.status !== "running" || !step || step.state === "closed") return undefined;
        return step.trained.includes(agent) && step.step > done ? step : undefined;
      }, signal);
      const isStill = ({ step: now }: Seen) => now?.step === step.step && now.state === step.state;
      const pause = (seconds: number) => watch.pause(seconds, (now) => (isStill(now) ? undefined : now), signal);
      await role.prepare(step.policy[agent] ?? 0);
      // Nothing is finalized yet: the store's first answers are for those who claim.
      if (step.state === "open") await pause(liveness.pollSeconds);
      const version = (step.policy[agent] ?? 0) + 1;
      // In this trainer's own place nobody else has published it; if somebody did, this version loses to that one.
      const published: Manifest | undefined =
        mine || step.state === "open" ? undefined : await checkpoints.find(agent, version);
      const taken: Held | undefined = published ? undefined : await place.take(step.state === "ready");
      mine = taken !== undefined;
      if (published) {
        done = step.step;
        await role.published(version, step.step);
      } else if (taken) {
        const foreseen = taken.takeovers === 0 ? role.foreseen : () => {};
        const end = await endOf(trainVersion({ ...role, foreseen }, engine, step, signal), run);
        if (end === "halted") await watch.refresh();
        mine = end !== "replaced";
        if (end !== "published") continue;
        done = step.step;
        watch.poke();
        await role.published(version, step.step);
      } else {
        await pause(step.state === "ready" ? liveness.heartbeatSeconds : liveness.leaseSeconds / 2);
      }
      role.trajectories.forgetBefore(step.step);
    }
  } catch (error) {
    stopped = isMgrpoError(error, "cancelled");
    throw error;
  } finally {
    try {
      await engine.close();
    } finally {
      // A crash leaves the place taken: whoever takes it over counts that.
      if (stopped) await place.release();
    }
  }
}

/**
 * What became of a version. `replaced`: another worker took the training over meanwhile, one that found this one dead, or even published
 * before this one could begin. `halted`: a service refused, or the step cannot be taken (a loss that is no number), and the run is halted
 * for it.
 */
async function endOf(work: Promise<void>, run: Run): Promise<"published" | "replaced" | "halted"> {
  try {
    await work;
    return "published";
  } catch (error) {
    if (isMgrpoError(error, "claim-lost", "step-closed")) return "replaced";
    if (isMgrpoError(error, "run-halted")) await run.store.table.update(endRun(run.name, "halted", error.message));
    else if (!(await haltedBy(run, error))) throw error;
    return "halted";
  }
}

async function trainVersion(
  role: TrainRole,
  engine: TrainerState,
  step: StepRecord,
  signal: AbortSignal,
): Promise<void> {
  const { run, agent, checkpoints, meter } = role;
  const version = (step.policy[agent] ?? 0) + 1;
  const config = run.config.agents[agent];
  if (!config) throw new MgrpoError("config-invalid", `run '${run.name}' has no agent '${agent}'`);
  const base = await checkpoints.manifest(agent, version - 1);
  const { algorithm, temperature } = run.config;
  const reference = algorithm.kl.coefficient > 0 ? onDistinct(meter.trainer(await engine.reference())) : undefined;
  const settings = { algorithm, optimizer: optimizerAt(config.optimizer, progressAt(run.config, step)), temperature };
  const { stats, trained, files } = await engine.on(base, async (trainer) => {
    const result = await trainStep(
      onDistinct(meter.trainer(trainer)),
      batchParts(role, step, signal),
      settings,
      reference,
    );
    if (!result.trained) return { ...result, files: base.files };
    const saved = await engine.save((weights) => role.foreseen(version, replaceFiles(base.files, weights)));
    return { ...result, files: replaceFiles(base.files, saved) };
  });
  const manifest: Manifest = {
    ...{ run: run.name, agent, version, trained, files },
    stats: stats.trajectories > 0 ? stats : null,
    seconds: meter.takeSeconds(),
  };
  await discardExpired(role, manifest);
  const won = await checkpoints.publish(manifest);
  run.log.info(won ? "published" : "published by another", {
    agent,
    version,
    step: step.step,
    trained,
    trajectories: stats.trajectories,
  });
  if (stats.maxRatioDeviation > MAX_RATIO_DEVIATION) {
    run.log.warn("sampler and trainer disagree", {
      agent,
      step: step.step,
      maxRatioDeviation: stats.maxRatioDeviation,
      limit: MAX_RATIO_DEVIATION,
    });
  }
}

/**
 * Lets the engine delete what the version that this one pushes out keeps on a server. Before this one is published: then its files are
 * deleted too. The version before stays, so that a crash in between costs nothing.
 */
async function discardExpired({ run, agent, engine, checkpoints }: TrainRole, next: Manifest): Promise<void> {
  const expired = expiredVersion(run.config, next.version);
  if (!engine.discard || expired === undefined) return;
  const others = neighbours(run.config, expired).filter((version) => version < next.version);
  const kept = await Promise.all(others.map((version) => checkpoints.manifest(agent, version)));
  const old = await checkpoints.manifest(agent, expired);
  if (expiredParts(old, [...kept, next]).length === 0) return;
  await engine.discard(await checkpoints.files(old, "inference"));
}

type Files = Manifest["files"];

/** The engine's trainer, and which bytes it holds. */
interface TrainerState {
  /** Works with the trainer, which holds exactly the manifest's weights and optimizer state; anew where it could not go on from a dead one. */
  on<T extends { trained: boolean }>(manifest: Manifest, work: (trainer: Trainer) => Promise<T>): Promise<T>;
  /** Version 0, for the KL term: of an adapter that began afresh, its base. */
  reference(): Promise<Trainer>;
  /** Stores what the trainer holds. `soon` is told of the weights before. */
  save(soon: (weights: Files) => void): Promise<Files>;
  close(): Promise<void>;
}

function openTrainerState({ run, agent, engine, checkpoints, worker }: TrainRole): TrainerState {
  const config = run.config.agents[agent];
  if (!config) throw new MgrpoError("config-invalid", `run '${run.name}' has no agent '${agent}'`);
  let trainer: Trainer | undefined;
  let frozen: Trainer | undefined;
  let holds = "";
  const identity = (files: Manifest["files"]) => `${weightsSha256(files)} ${files[OPTIMIZER]?.sha256 ?? "fresh"}`;

  const at = async (manifest: Manifest): Promise<Trainer> => {
    if (trainer && holds === identity(manifest.files)) {
      // A training step will change it; until it is saved, it is nobody's version.
      holds = "";
      return trainer;
    }
    const files = await checkpoints.files(manifest, "all");
    if (trainer) await trainer.load(files);
    else trainer = await engine.openTrainer(files, engineOptions(config), callJournal(run, agent, worker));
    holds = "";
    return trainer;
  };

  return {
    async on(manifest, work) {
      const attempt = async () => {
        const result = await work(await at(manifest));
        if (!result.trained) holds = identity(manifest.files);
        return result;
      };
      try {
        return await attempt();
      } catch (error) {
        if (!isMgrpoError(error, "replay-failed")) throw error;
        run.log.warn("the step begins anew", { agent, error: error.message });
        return attempt();
      }
    },
    async reference() {
      frozen ??= await engine.openTrainer(
        await checkpoints.files(await checkpoints.manifest(agent, 0), "all"),
        engineOptions(config),
      );
      return frozen;
    },
    async save(soon) {
      if (!trainer) throw new MgrpoError("engine-unsupported", `agent '${agent}' has no open trainer to save`);
      const made = [...(await trainer.save())].map(([name, bytes]) => ({ name, bytes }));
      const named = (files: typeof made) =>
        files.map(({ name, bytes }) => ({ name, bytes, part: checkpoints.register(agent, name, bytes) }));
      const byName = (files: ReturnType<typeof named>) =>
        Object.fromEntries(files.map(({ name, part }) => [name, part]));
      const weights = named(made.filter(({ name }) => name !== OPTIMIZER));
      soon(byName(weights));
      const all = [...weights, ...named(made.filter(({ name }) => name === OPTIMIZER))];
      await Promise.all(all.map(({ part, bytes }) => checkpoints.store(part, bytes)));
      const saved = byName(all);
      holds = identity(saved);
      return saved;
    },
    async close() {
      await Promise.all([trainer?.close(), frozen?.close()]);
    },
  };
}
