/**
 * @file Lambda, with what wakes it: object created -> (EventBridge) -> queue -> batches -> instances of the real handlers, each with the
 * memory of a process of its own; and the clock.
 *
 *     queue ──batch──> idle instance, or a cold one ──> answered          a failed event comes again after the visibility timeout,
 *                         '── over its time limit: killed                 the fifth time it is a dead letter
 */
import type { Rewards } from "../../../core/ports.ts";
import { composeFunctions } from "../../../functions/compose.ts";
import { answer as enqueueEvaluation } from "../../../functions/enqueue-evaluation.ts";
import { type Answer, type LambdaHandler, wrap } from "../../../functions/handler.ts";
import { answer as recordEvaluation } from "../../../functions/record-evaluation.ts";
import { answer as scoreRollout } from "../../../functions/score-rollout.ts";
import { answer as startRun } from "../../../functions/start-run.ts";
import { answer as tick } from "../../../functions/tick.ts";
import { CLOCK, START_RUN, WOKEN } from "../../../stacks/sizes.ts";
import { COLD_START, CPU_PER_REQUEST, KEPT_WARM, SECONDS } from "../assumptions.ts";
import { LIMITS, QUEUE_SCALING } from "../limits.ts";
import { jitter, type Cloud, openSimulatedStore, pause } from "./store.ts";

const HANDLERS = {
  "start-run": { ...START_RUN, answer: startRun },
  tick: { ...WOKEN.tick, answer: tick },
  "score-rollout": { ...WOKEN["score-rollout"], answer: scoreRollout },
  "enqueue-evaluation": { ...WOKEN["enqueue-evaluation"], answer: enqueueEvaluation },
  "record-evaluation": { ...WOKEN["record-evaluation"], answer: recordEvaluation },
} satisfies Record<string, { seconds: number; megabytes: number; answer: Answer }>;
type Name = keyof typeof HANDLERS;

/** As stacks/events.ts makes the queues. */
const VISIBILITY_FACTOR = 6;
const DELIVERIES = 5;

interface Instance {
  readonly handler: LambdaHandler;
  usedAt: number;
  alive: boolean;
}

interface Message {
  readonly messageId: string;
  readonly body: string;
  deliveries: number;
}

export interface SimulatedFunctions {
  /** Hears of each new object. */
  objectCreated(key: string): void;
  /** Calls a function directly. Rejects if it fails. */
  invoke(name: Name, event: unknown): Promise<void>;
  /** Starts the clock that wakes tick. */
  startClock(): void;
}

/** `log` takes the lines that functions write about failures. */
export function openSimulatedFunctions(
  cloud: () => Cloud,
  rewards: Rewards,
  log: (line: string) => void,
): SimulatedFunctions {
  const idle = new Map<Name, Instance[]>();
  const now = () => performance.now() / 1000;
  let busy = 0;

  function boot(name: Name): Instance {
    const instance: Instance = { handler: async (event) => handler(event), usedAt: now(), alive: true };
    const caller = { name, cpuSeconds: CPU_PER_REQUEST, alive: () => instance.alive };
    const functions = composeFunctions(openSimulatedStore(cloud(), caller), { rewardsOf: async () => rewards });
    const { answer }: { answer: Answer } = HANDLERS[name];
    const handler = wrap(name, (event) => answer(functions, event), log);
    return instance;
  }

  /** Undefined: the function failed as a whole, or was killed. */
  async function call(name: Name, event: unknown) {
    const { meter } = cloud();
    const pool = (idle.get(name) ?? []).filter(({ usedAt }) => now() - usedAt < KEPT_WARM);
    idle.set(name, pool);
    const use = meter.functionUsed(name);
    busy += 1;
    use.invocations += 1;
    meter.largestConcurrency = Math.max(meter.largestConcurrency, busy);
    const started = now();
    const known = pool.pop();
    if (!known) {
      use.coldStarts += 1;
      await pause(COLD_START);
    }
    const instance = known ?? boot(name);
    // A cold start is billed, but does not count against the time limit. Seen every second: a call may outlast the window.
    const booted = now();
    const watch = () => {
      use.longest = Math.max(use.longest, now() - booted);
    };
    const watching = setInterval(watch, 1000);
    let killed = false;
    const over = pause(HANDLERS[name].seconds).then(() => {
      killed = true;
      return undefined;
    });
    const answered = await Promise.race([instance.handler(event).catch(() => undefined), over]);
    busy -= 1;
    instance.usedAt = now();
    use.seconds += now() - started;
    clearInterval(watching);
    watch();
    if (killed && !answered) {
      instance.alive = false;
      use.timedOut += 1;
    } else {
      idle.get(name)?.push(instance);
    }
    return answered;
  }

  function openQueue(name: keyof typeof WOKEN) {
    const { batch, seconds } = WOKEN[name];
    const messages: Message[] = [];
    let polling = 0;
    let backlogSince: number | undefined;
    let sent = 0;

    /** As many batches at once as Lambda works on by now, a backlog having lasted so long. */
    function room(): number {
      if (backlogSince === undefined) return QUEUE_SCALING.first;
      const grown = QUEUE_SCALING.first + ((now() - backlogSince) / 60) * QUEUE_SCALING.perMinute;
      return Math.min(Math.floor(grown), QUEUE_SCALING.most);
    }

    function poll() {
      while (messages.length > 0 && polling < room() && busy < LIMITS.lambdaConcurrency.limit) {
        polling += 1;
        const taken = messages.splice(0, batch);
        handle(taken).finally(() => {
          polling -= 1;
          poll();
        });
      }
      if (messages.length === 0) backlogSince = undefined;
      else {
        backlogSince ??= now();
        if (polling === 0) pause(1).then(poll);
      }
    }

    async function handle(taken: readonly Message[]) {
      const { meter } = cloud();
      meter.queueRequests += 2;
      const Records = taken.map(({ messageId, body }) => ({ messageId, body }));
      const answered = await call(name, { Records });
      const failed = new Set(answered?.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      for (const message of taken) {
        if (answered && !failed.has(message.messageId)) continue;
        meter.functionUsed(name).failed += 1;
        message.deliveries += 1;
        if (message.deliveries >= DELIVERIES) meter.deadLetters += 1;
        else pause(VISIBILITY_FACTOR * seconds).then(() => put(message));
      }
    }

    function put(message: Message) {
      messages.push(message);
      poll();
    }

    return (body: string) => {
      cloud().meter.queueRequests += 1;
      put({ messageId: String(sent++), body, deliveries: 0 });
    };
  }

  const rules = Object.entries(WOKEN).map(([name, { pattern }]) => ({
    matches: new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`),
    send: openQueue(name as keyof typeof WOKEN),
  }));

  return {
    objectCreated(key) {
      const { meter, random } = cloud();
      meter.events.add("objects", meter.second(), 1);
      for (const { matches, send } of rules) {
        if (!matches.test(key)) continue;
        meter.events.add("targets", meter.second(), 1);
        const detail = { bucket: { name: "simulated" }, object: { key } };
        const event = { "detail-type": "Object Created", source: "aws.s3", detail };
        pause(jitter(SECONDS.event, random)).then(() => send(JSON.stringify(event)));
      }
    },
    async invoke(name, event) {
      if (!(await call(name, event))) throw new Error(`${name} failed`);
    },
    startClock() {
      const tickNow = () => void call("tick", { "detail-type": "Scheduled Event" });
      // Its minute falls in the middle of a step of a minute, where a look at all that is under way takes longest.
      setTimeout(() => {
        tickNow();
        setInterval(tickNow, CLOCK.seconds * 1000);
      }, CLOCK.seconds * 500);
    },
  };
}
