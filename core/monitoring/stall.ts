/** @file Whether a run stands still: no rollout was scored and no version came for much longer than its steps take. */
import type { RunConfig } from "../contracts/config.ts";
import { progressOf } from "../training/clock-list.ts";
import { type Cause, causesOf, type RunState } from "./causes.ts";

export interface Stall {
  /** Seconds without progress. */
  readonly seconds: number;
  readonly causes: readonly Cause[];
}

/** Without progress for as long, a run stands still; while processes are at work, only after longer. */
const LEAST_SECONDS = { idle: 60, atWork: 600 };
/** A run whose steps take longer is given as many of its own steps. */
const STEPS = 3;

/** Looks at a run again and again, and remembers when it last advanced. */
export class StallDetector {
  readonly #config: RunConfig;
  #progress = "";
  #since = 0;

  constructor(config: RunConfig) {
    this.#config = config;
  }

  /** @param stepSeconds of the newest closed step; null: unknown. `storeTime` in ms. */
  look(state: RunState, storeTime: number, stepSeconds: number | null): Stall | undefined {
    const progress = progressOf(state.step, state.groups, state.agents);
    if (progress !== this.#progress) {
      this.#progress = progress;
      this.#since = storeTime;
    }
    const seconds = (storeTime - this.#since) / 1000;
    const least = STEPS * (stepSeconds ?? 0);
    if (seconds < Math.max(LEAST_SECONDS.idle, least)) return undefined;
    const causes = causesOf(this.#config, state, storeTime);
    const isAtWork = causes.length > 0 && causes.every(({ isWork }) => isWork);
    return isAtWork && seconds < LEAST_SECONDS.atWork ? undefined : { seconds, causes };
  }
}

/** One line. */
export function describeStall({ seconds, causes }: Stall): string {
  const why = causes.map(({ what, ends }) => `${what} (ends when ${ends})`).join("; ");
  return `nothing has changed for ${Math.round(seconds)} s: ${why || "every record is as it should be, so read the logs of its workers"}`;
}
