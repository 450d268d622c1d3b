/** @file What every function works with: the store, the recipe's rewards, and what this process remembers of immutable records. */

import type { RunConfig } from "../core/contracts/config.ts";
import type { Deployment } from "../core/contracts/deployment.ts";
import type { GroupRecord } from "../core/contracts/records.ts";
import type { Controls, Rewards, Store } from "../core/ports.ts";
import { type Facts, openFacts } from "./protocol/facts.ts";
import { openScoreRecorder, type ScoreRecorder } from "./protocol/recording.ts";
import { openRecords, type Records } from "./protocol/records.ts";

export interface FunctionOptions {
  /** Opens the rewards of a run's recipe. */
  readonly rewardsOf: (config: RunConfig) => Promise<Rewards>;
  /**
   * True where one process hears all events for hours (the local dispatcher): the clock then looks for unheard outcomes only in
   * groups that stood still since its last look. A function that may be cold looks at once.
   */
  readonly patient?: boolean;
  /** Opens what a deployment lets its functions move; called only where the table belongs to one. Absent: they move nothing. */
  readonly controlsOf?: (deployment: Deployment) => Controls;
}

export interface Context extends Store, Pick<FunctionOptions, "rewardsOf"> {
  readonly controlsOf: FunctionOptions["controlsOf"] | undefined;
  readonly facts: Facts;
  readonly records: Records;
  readonly recordScore: ScoreRecorder;
  /** Whether the clock should look for unheard outcomes of this open group. */
  readonly stoodStill: (group: GroupRecord) => boolean;
}

export function openContext(
  { objects, table, clock }: Store,
  { rewardsOf, controlsOf, patient = false }: FunctionOptions,
): Context {
  const facts = openFacts({ objects, table });
  const records = openRecords(table);
  const recordScore = openScoreRecorder(table);
  const stoodStill = patient ? watchGroups() : () => true;
  return { objects, table, clock, rewardsOf, controlsOf, facts, records, recordScore, stoodStill };
}

function watchGroups(): (group: GroupRecord) => boolean {
  const scored = new Map<string, string>();
  return ({ run, step, group, rollouts }) => {
    const name = `${run}/${group}`;
    const before = scored.get(name);
    const now = `${step}/${Object.keys(rollouts).length}`;
    scored.set(name, now);
    return before === now;
  };
}
