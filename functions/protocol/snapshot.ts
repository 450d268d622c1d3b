/**
 * @file Reads what the step reducer needs, and no more: an open step is read only up to its first open group, since nothing moves
 * before that one is sealed.
 */
import type { RunRecord } from "../../core/contracts/records.ts";
import { LOSS_WINDOW, lostRollouts } from "../../core/training/losses.ts";
import { policyAt } from "../../core/training/plan.ts";
import { expiredVersion, neighbours } from "../../core/training/retention.ts";
import type { Snapshot } from "../../core/training/step.ts";
import type { Context } from "../context.ts";
import { readEarlier, readIfSealed } from "./groups.ts";
import { readAgents, readExpired, readManifests } from "./versions.ts";

/** Undefined: an open group was found, nothing to do but wait. */
export async function readSnapshot(context: Context, run: RunRecord): Promise<Snapshot | undefined> {
  const { records, facts } = context;
  const config = await facts.config(run.run);
  const { train } = await facts.questions(run.run);
  const over = run.step >= config.steps;
  const step = over ? undefined : await records.step(run.run, run.step);
  const empty = { previous: undefined, groups: [], earlier: [], manifests: new Map(), agents: [], expired: [] };
  const base = { config, questions: train, run, step, ...empty };
  if (over) return base;
  if (!step) return { ...base, previous: run.step > 0 ? await records.step(run.run, run.step - 1) : undefined };
  if (step.state === "open") {
    const groups = await readIfSealed(context, step);
    if (!groups) return undefined;
    const lost = lostRollouts(groups.flatMap((group) => group ?? [])).length > 0;
    return { ...base, groups, earlier: lost ? await readEarlier(context, step, LOSS_WINDOW - 1) : [] };
  }
  const manifests = await readManifests(context, config.run, policyAt(config, step.step + 1));
  if (step.state === "ready")
    return { ...base, manifests, agents: manifests.size > 0 ? await readAgents(context, run.run) : [] };
  return {
    ...base,
    manifests,
    expired: await readExpired(context, step, expiredVersion(config, step.step + 1), (v) => neighbours(config, v)),
  };
}
