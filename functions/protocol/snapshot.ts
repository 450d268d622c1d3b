/**
 * @file Reads what the step reducer needs, and no more: an open step is read only up to its first open group, since nothing moves
 * before that one is finalized.
 */
import type { RunRecord } from "../../core/contracts/records.ts";
import { LOSS_WINDOW, lostRollouts } from "../../core/training/losses.ts";
import { policyAt } from "../../core/training/plan.ts";
import { expiredVersion, neighbours } from "../../core/training/retention.ts";
import type { Snapshot } from "../../core/training/step.ts";
import type { Context } from "../context.ts";
import { readEarlier, readIfFinalized } from "./groups.ts";
import { readAgents, readExpired, readManifests } from "./versions.ts";

/** Undefined: an open group was found, nothing to do but wait. */
export async function readSnapshot(context: Context, run: RunRecord): Promise<Snapshot | undefined> {
  const { records, facts } = context;
  const config = await facts.config(run.run);
  const { train } = await facts.questions(run.run);
  const step = await records.step(run.run, run.step);
  const empty = { previous: undefined, planned: false, groups: [], earlier: [], manifests: new Map(), agents: [] };
  const base = { config, questions: train, run, step, ...empty, expired: [] };
  const expired = () =>
    readExpired(context, config, expiredVersion(config, run.step), (version) => neighbours(config, version));
  if (!step && run.step === 0) return base;
  if (!step) return { ...base, previous: await records.step(run.run, run.step - 1), expired: await expired() };
  if (step.state === "open") {
    const groups = await readIfFinalized(context, step);
    if (!groups) return undefined;
    const lost = lostRollouts(groups.flatMap((group) => group ?? [])).length > 0;
    return { ...base, groups, earlier: lost ? await readEarlier(context, step, LOSS_WINDOW - 1) : [] };
  }
  const [manifests, planned] = await Promise.all([
    readManifests(context, config.run, policyAt(config, step.step + 1)),
    records.isPlanned(run.run, step.step + 1),
  ]);
  const agents = step.state === "ready" && manifests.size > 0 ? await readAgents(context, run.run) : [];
  return { ...base, manifests, planned, agents, expired: planned ? [] : await expired() };
}
