/**
 * @file From a rate to what is simulated: the size and length of a step, the workers that it takes, and the window that stands for the
 * hours.
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { CALLS, ROLLOUT_SHARE, SECONDS } from "./assumptions.ts";
import { teamConfig } from "./team.ts";

export interface Load {
  readonly rolloutsPerMinute: number;
  readonly agents: number;
  /** Settings of the run, as `--set` of mgrpo takes them. */
  readonly set: readonly string[];
}

export interface Plan {
  readonly config: RunConfig;
  /** Rollouts of a step, and the seconds it lasts at this rate. */
  readonly rolloutsPerStep: number;
  readonly stepSeconds: number;
  /** Steps before the window, and in it. */
  readonly warmUp: number;
  readonly measured: number;
  /** Agent -> its workers. */
  readonly workers: Readonly<Record<string, number>>;
}

/** A step asks at least so many questions, and lasts at least so long. */
const LEAST_QUESTIONS = 8;
const LEAST_SECONDS = 60;
/** Rollouts that a window holds, if that takes no more steps than these. */
const WINDOW_ROLLOUTS = 200;
const MOST_STEPS = 3;
/**
 * From so many rollouts in a step on, the first one is the window: what warms up is little of it, and a second one would double the wait.
 */
const NO_WARM_UP = 3000;

export function planOf({ rolloutsPerMinute, agents, set }: Load): Plan {
  const perSecond = rolloutsPerMinute / 60;
  const advised = (questionsPerStep: number, steps: number) => ({
    name: "simulated",
    config: () => ({ ...teamConfig(agents), questionsPerStep, steps }),
  });
  const choice = { run: "simulated", seed: 1, arm: "mgrpo", set } as const;
  const { rolloutsPerQuestion } = resolveConfig(advised(1, 1), choice);
  const questions = Math.max(LEAST_QUESTIONS, Math.round((perSecond * LEAST_SECONDS) / rolloutsPerQuestion));
  const rolloutsInStep = questions * rolloutsPerQuestion;
  const measured = Math.min(MOST_STEPS, Math.ceil(WINDOW_ROLLOUTS / rolloutsInStep));
  const warmUp = rolloutsInStep < NO_WARM_UP ? 1 : 0;
  const steps = warmUp + measured + 1;
  const config = resolveConfig(advised(questions, steps), choice);
  if (config.steps !== steps)
    throw new MgrpoError("config-invalid", "--set steps: a simulation ends with its window, leave it out");
  const rolloutsPerStep = config.questionsPerStep * config.rolloutsPerQuestion;
  const stepSeconds = rolloutsPerStep / perSecond;
  return {
    config,
    rolloutsPerStep,
    stepSeconds,
    warmUp,
    measured,
    workers: workersOf(config, rolloutsPerStep, stepSeconds),
  };
}

/** As many as it takes for a step's rollouts to end in their share of it, each wave of them as long as a slow one. */
function workersOf(config: RunConfig, rollouts: number, stepSeconds: number): Record<string, number> {
  const callSeconds = 2 * SECONDS.turn;
  const slowRollout = 1.5 * (2 * SECONDS.turn + callSeconds);
  const waves = Math.max(1, Math.floor((ROLLOUT_SHARE * stepSeconds) / slowRollout));
  const inFlight = rollouts / waves;
  const callsPerRollout = CALLS.reduce((sum, chance, calls) => sum + chance * calls, 0);
  const names = Object.keys(config.agents);
  return Object.fromEntries(
    names.map((name) => {
      const slots = config.agents[name]?.engine.slots ?? 1;
      // One that waits for a sub-agent leaves its slot to another (gpu-workers/serve.ts).
      const needed =
        name === config.main ? inFlight / (2 * slots) : (inFlight * callsPerRollout) / (names.length - 1) / slots;
      return [name, Math.max(1, Math.ceil(needed))];
    }),
  );
}
