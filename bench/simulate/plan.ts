/** @file Plans a simulation at a given rate: the size and duration of a step, its workers, and the window that is measured. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { CALL_PROBABILITIES, ROLLOUT_SHARE, SECONDS } from "./assumptions.ts";
import { teamConfig } from "./team.ts";

export interface Load {
  /** Of all runs together. */
  readonly rolloutsPerMinute: number;
  readonly runs: number;
  readonly agents: number;
  /** Settings of the run, as in `mgrpo train --set`. */
  readonly set: readonly string[];
}

/** All runs have the same plan, apart from their names. */
export interface SimulationPlan {
  readonly configs: readonly [RunConfig, ...RunConfig[]];
  /** Rollouts of a step, and the seconds that it lasts at this rate. */
  readonly rolloutsPerStep: number;
  readonly stepSeconds: number;
  /** Steps before the window, and in it. */
  readonly warmUp: number;
  readonly measured: number;
  /** Agent -> its workers in each run. */
  readonly workers: Readonly<Record<string, number>>;
}

/** A step has at least MIN_QUESTIONS, and lasts about STEP_SECONDS if it has more. */
const MIN_QUESTIONS = 8;
const STEP_SECONDS = 60;
/** The window has at least this many rollouts, or MAX_STEPS steps. */
const WINDOW_ROLLOUTS = 200;
const MAX_STEPS = 3;
/**
 * With at least this many rollouts per step, the first step is the window: warm-up is a small part of it, and a second step would double the
 * duration of the simulation.
 */
const NO_WARM_UP_ROLLOUTS = 3000;

export function planOf({ rolloutsPerMinute, runs, agents, set }: Load): SimulationPlan {
  const perSecond = rolloutsPerMinute / runs / 60;
  const recipe = (questionsPerStep: number, steps: number) => ({
    name: "simulated",
    config: () => ({ ...teamConfig(agents), questionsPerStep, steps }),
  });
  const choice = { run: "simulated", seed: 1, arm: "mgrpo", set } as const;
  const { rolloutsPerQuestion } = resolveConfig(recipe(1, 1), choice);
  const questions = Math.max(MIN_QUESTIONS, Math.round((perSecond * STEP_SECONDS) / rolloutsPerQuestion));
  // A setting may give the step another size.
  const { questionsPerStep } = resolveConfig(recipe(questions, 1), choice);
  const rolloutsPerStep = questionsPerStep * rolloutsPerQuestion;
  const measured = Math.min(MAX_STEPS, Math.ceil(WINDOW_ROLLOUTS / rolloutsPerStep));
  const warmUp = rolloutsPerStep < NO_WARM_UP_ROLLOUTS ? 1 : 0;
  const steps = warmUp + measured + 1;
  const config = resolveConfig(recipe(questions, steps), choice);
  if (config.steps !== steps)
    throw new MgrpoError("config-invalid", "--set steps: a simulation ends with its window: leave this setting out");
  // A turn's script depends on its place, which it reads from its stream's name. Without it, no turn would be the first one, and no agent would
  // call anything.
  if (config.draws !== "place")
    throw new MgrpoError(
      "config-invalid",
      "--set draws: a simulated turn is scripted by its place in the rollout: leave this setting out",
    );
  const stepSeconds = rolloutsPerStep / perSecond;
  const others = Array.from({ length: runs - 1 }, (_, i) => ({ ...config, run: `${config.run}-${i + 2}` }));
  return {
    configs: [config, ...others],
    rolloutsPerStep,
    stepSeconds,
    warmUp,
    measured,
    workers: workersOf(config, rolloutsPerStep, stepSeconds),
  };
}

/**
 * Enough workers for a step's rollouts to end within their share of its duration. They run in waves, each as long as a slow rollout. If not
 * even one wave fits, enough workers to run all rollouts at once.
 */
function workersOf(config: RunConfig, rollouts: number, stepSeconds: number): Record<string, number> {
  const callSeconds = 2 * SECONDS.turn;
  const slowRollout = 1.5 * (2 * SECONDS.turn + callSeconds);
  const waves = Math.max(1, Math.floor((ROLLOUT_SHARE * stepSeconds) / slowRollout));
  const inFlight = rollouts / waves;
  const callsPerRollout = CALL_PROBABILITIES.reduce((sum, chance, calls) => sum + chance * calls, 0);
  const names = Object.keys(config.agents);
  return Object.fromEntries(
    names.map((name) => {
      const slots = config.agents[name]?.engine.slots ?? 1;
      // A conversation that waits for a sub-agent frees its slot (gpu-workers/worker-loops.ts).
      const needed =
        name === config.main ? inFlight / (2 * slots) : (inFlight * callsPerRollout) / (names.length - 1) / slots;
      return [name, Math.max(1, Math.ceil(needed))];
    }),
  );
}
