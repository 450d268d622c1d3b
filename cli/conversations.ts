/** @file Reads conversations from the store: outcomes, the invocations that they refer to, how long turns took, and the questions. */
import { objectKeys } from "../core/contracts/keys.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { QuestionSet } from "../core/contracts/question.ts";
import { Invocation, Outcome, type RolloutAddress } from "../core/contracts/rollout.ts";
import type { TurnLatency } from "../core/contracts/telemetry.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import { readTelemetry } from "../gpu-workers/step-telemetry.ts";

export type Latencies = ReadonlyMap<string, readonly TurnLatency[]>;

type Objects = Pick<Store, "objects">;

/** Undefined while the rollout has no outcome. */
export async function readOutcome({ objects }: Objects, address: RolloutAddress): Promise<Outcome | undefined> {
  const key = objectKeys.outcome(address);
  const bytes = await objects.get(key);
  return bytes && parseJson(Outcome, bytes, key);
}

/** By invocation id, in the order of the outcome. Empty if the rollout failed. */
export async function readInvocations({ objects }: Objects, outcome: Outcome): Promise<Map<string, Invocation>> {
  if (outcome.status === "failed") return new Map();
  const found = outcome.invocations.map(async ({ id, key }): Promise<[string, Invocation]> => {
    const bytes = await objects.get(key);
    if (!bytes) throw new MgrpoError("not-found", `${key}: the outcome names it, but it is not in the store`);
    return [id, parseJson(Invocation, bytes, key)];
  });
  return new Map(await Promise.all(found));
}

export interface StoredRollout {
  readonly outcome: Outcome;
  /** By id. Empty if the rollout failed. */
  readonly invocations: ReadonlyMap<string, Invocation>;
}

/**
 * Undefined while the rollout has no outcome, and once any part of it has expired. A store deletes objects by their own age, and invocations
 * are older than the outcome that names them.
 * @param isExcluded whether scoring excluded the rollout. If so, undefined also if a record is damaged: the score names the damage.
 */
export async function readRollout(
  store: Objects,
  address: RolloutAddress,
  isExcluded = false,
): Promise<StoredRollout | undefined> {
  try {
    const outcome = await readOutcome(store, address);
    return outcome && { outcome, invocations: await readInvocations(store, outcome) };
  } catch (error) {
    if (isMgrpoError(error, "not-found")) return undefined;
    if (isExcluded && isMgrpoError(error, "record-damaged")) return undefined;
    throw error;
  }
}

/** How long the turns of a step's conversations took, by `latencyName`. Conversations of workers that were killed during the step, or that still
 * sample it, are left out. */
export async function readLatencies(store: Store, run: string, step: number): Promise<Latencies> {
  const found = await readTelemetry(store, run, step);
  return new Map(found.flatMap(({ conversations }) => Object.entries(conversations)));
}

export async function readStoredQuestions({ objects }: Objects, run: string): Promise<QuestionSet> {
  const key = objectKeys.questions(run);
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key} is not in the store: has the run started?`);
  return parseJson(QuestionSet, bytes, key);
}
