/**
 * @file Lambda in the simulation: instances of the real handlers, each with its own state, as in a process of its own.
 *
 *     call ──> a warm instance, or a cold one ──> result
 *                        └── over its time limit: killed
 */
import type { Rewards } from "../../../core/ports.ts";
import { composeFunctions } from "../../../functions/compose.ts";
import { type EventHandler, type LambdaHandler, wrap } from "../../../functions/handler.ts";
import { handleEvent as enqueueEvaluation } from "../../../functions/lambda/enqueue-evaluation.ts";
import { handleEvent as recordEvaluation } from "../../../functions/lambda/record-evaluation.ts";
import { handleEvent as scoreRollout } from "../../../functions/lambda/score-rollout.ts";
import { handleEvent as startRun } from "../../../functions/lambda/start-run.ts";
import { handleEvent as tick } from "../../../functions/lambda/tick.ts";
import { EVENT_FUNCTIONS, START_RUN } from "../../../stacks/sizes.ts";
import { COLD_START_SECONDS, CPU_SECONDS_PER_REQUEST, KEEP_WARM_SECONDS } from "../assumptions.ts";
import { LIMITS } from "../limits.ts";
import type { FunctionUse } from "../meter.ts";
import { type Cloud, openSimulatedStore, pause } from "./store.ts";

const HANDLERS = {
  "start-run": { ...START_RUN, handleEvent: startRun },
  tick: { ...EVENT_FUNCTIONS.tick, handleEvent: tick },
  "score-rollout": { ...EVENT_FUNCTIONS["score-rollout"], handleEvent: scoreRollout },
  "enqueue-evaluation": { ...EVENT_FUNCTIONS["enqueue-evaluation"], handleEvent: enqueueEvaluation },
  "record-evaluation": { ...EVENT_FUNCTIONS["record-evaluation"], handleEvent: recordEvaluation },
} satisfies Record<string, { seconds: number; megabytes: number; handleEvent: EventHandler }>;
export type FunctionName = keyof typeof HANDLERS;

interface Instance {
  readonly handler: LambdaHandler;
  usedAt: number;
  alive: boolean;
}

export const now = () => performance.now() / 1000;

export class Lambda {
  readonly #cloud: () => Cloud;
  readonly #rewards: Rewards;
  readonly #log: (line: string) => void;
  readonly #warm = new Map<FunctionName, Instance[]>();
  #busy = 0;

  /** `log` receives the lines that functions write about failures. */
  constructor(cloud: () => Cloud, rewards: Rewards, log: (line: string) => void) {
    this.#cloud = cloud;
    this.#rewards = rewards;
    this.#log = log;
  }

  /** Whether the account's concurrency limit allows another call. */
  get hasRoom(): boolean {
    return this.#busy < LIMITS.lambdaConcurrency.limit;
  }

  /** Resolves to undefined if the function failed as a whole or was killed. */
  async call(name: FunctionName, event: unknown): Promise<Awaited<ReturnType<LambdaHandler>> | undefined> {
    const { meter } = this.#cloud();
    const use = meter.functionUse(name);
    this.#busy += 1;
    use.invocations += 1;
    meter.largestConcurrency = Math.max(meter.largestConcurrency, this.#busy);
    const started = now();
    const warm = this.#takeWarm(name);
    if (!warm) {
      use.coldStarts += 1;
      await pause(COLD_START_SECONDS);
    }
    const instance = warm ?? this.#boot(name);
    const result = await runWithLimit(instance, event, HANDLERS[name].seconds, use);
    this.#busy -= 1;
    instance.usedAt = now();
    use.seconds += now() - started;
    if (instance.alive) this.#warm.get(name)?.push(instance);
    return result;
  }

  #takeWarm(name: FunctionName): Instance | undefined {
    const pool = (this.#warm.get(name) ?? []).filter(({ usedAt }) => now() - usedAt < KEEP_WARM_SECONDS);
    this.#warm.set(name, pool);
    return pool.pop();
  }

  #boot(name: FunctionName): Instance {
    const instance: Instance = { handler: async (event) => handler(event), usedAt: now(), alive: true };
    const caller = { name, cpuSeconds: CPU_SECONDS_PER_REQUEST, alive: () => instance.alive };
    const store = openSimulatedStore(this.#cloud(), caller);
    const functions = composeFunctions(store, { rewardsOf: async () => this.#rewards });
    const { handleEvent }: { handleEvent: EventHandler } = HANDLERS[name];
    const handler = wrap(name, (event) => handleEvent(functions, event), this.#log);
    return instance;
  }
}

/** Kills the instance at the time limit, which does not include the cold start. */
async function runWithLimit(instance: Instance, event: unknown, limitSeconds: number, use: FunctionUse) {
  const started = now();
  const recordLongest = () => {
    use.longest = Math.max(use.longest, now() - started);
  };
  // Recorded every second: a call may outlast the measurement window.
  const recording = setInterval(recordLongest, 1000);
  let isOver = false;
  const limit = pause(limitSeconds).then(() => {
    isOver = true;
    return undefined;
  });
  const result = await Promise.race([instance.handler(event).catch(() => undefined), limit]);
  clearInterval(recording);
  recordLongest();
  if (isOver && !result) {
    instance.alive = false;
    use.timedOut += 1;
  }
  return result;
}
