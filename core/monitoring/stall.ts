/** @file Whether a run has stalled: no rollout was scored and no version published for much longer than its steps take. */
import type { RunConfig } from "../contracts/config.ts";
import type { ListedRun } from "../contracts/records.ts";
import { progressOf } from "../training/run-list.ts";
import { causesOf } from "./causes.ts";
import type { Cause, RunState } from "./run-state.ts";

export interface Stall {
  /** The step that does not advance; undefined before the first is planned. */
  readonly step: number | undefined;
  /** Store time in ms of the last progress that was seen, or of a later resume. The list of runs dates either up to a minute late. */
  readonly since: number;
  /** Seconds since then. */
  readonly seconds: number;
  readonly causes: readonly Cause[];
}

/** Minimum number of seconds without progress after which a run has stalled. `atWork`: if every cause is a process at work. */
const MIN_SECONDS = { idle: 60, atWork: 600 };
/** A run has stalled only after the time that this many of its own steps take. */
const MIN_STEPS = 3;

/** Observes a run's state at each poll, and remembers when the run last advanced. */
export class StallDetector {
  readonly #config: RunConfig;
  #progress = "";
  #since = 0;

  constructor(config: RunConfig) {
    this.#config = config;
  }

  /**
   * @param storeTime in ms.
   * @param stepSeconds how long a step of this run takes; null: unknown.
   * @param listed the run's entry in the list of runs, which dates progress made before the first call, and a resume.
   */
  observe(state: RunState, storeTime: number, stepSeconds: number | null, listed?: ListedRun): Stall | undefined {
    const progress = progressOf(state.step, state.groups, state.agents);
    if (progress !== this.#progress) {
      this.#progress = progress;
      this.#since = listed?.progress === progress ? (listed.progressAt ?? storeTime) : storeTime;
    }
    // A resumed run has the progress of the halted one.
    this.#since = Math.max(this.#since, listed?.progressAt ?? 0);
    const seconds = (storeTime - this.#since) / 1000;
    const least = MIN_STEPS * (stepSeconds ?? 0);
    if (seconds < Math.max(MIN_SECONDS.idle, least)) return undefined;
    const causes = causesOf(this.#config, state, storeTime);
    const allAtWork = causes.length > 0 && causes.every(({ isAtWork }) => isAtWork);
    if (allAtWork && seconds < MIN_SECONDS.atWork) return undefined;
    return { step: state.step?.step, since: this.#since, seconds, causes };
  }
}

/** One line: the step, since when, and each cause with how likely it is and what ends it. */
export function describeStall({ step, since, seconds, causes }: Stall): string {
  const at = step === undefined ? "" : ` in step ${step}`;
  const time = `${timeOfDay(since)} UTC, for ${Math.round(seconds)} s`;
  const why = causes.map(({ what, ends, likelihood }) => `${what} (${likelihood}; ends when ${ends})`).join("; ");
  return `nothing has changed${at} since ${time}: ${why || "every record is as it should be, so read the workers' logs"}`;
}

/** `11:42:07`, of milliseconds since 1970. */
function timeOfDay(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000) % 86_400;
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}
