/** @file The functions and what invokes them: object created -> (EventBridge) -> queue -> Lambda; the schedule; and direct calls. */
import type { Rewards } from "../../../core/ports.ts";
import { EVENT_FUNCTIONS, SCHEDULE } from "../../../stacks/sizes.ts";
import { SECONDS } from "../assumptions.ts";
import { type FunctionName, Lambda } from "./lambda.ts";
import { EventQueue } from "./queue.ts";
import { type Cloud, jitter, pause } from "./store.ts";

export interface SimulatedFunctions {
  /** Takes the key of each new object. */
  objectCreated(key: string): void;
  /** Calls a function directly. Rejects if it fails. */
  invoke(name: FunctionName, event: unknown): Promise<void>;
  /** Starts the schedule that invokes tick. */
  startSchedule(): void;
}

interface EventRule {
  readonly pattern: RegExp;
  readonly queue: EventQueue;
}

/** `log` receives the lines that functions write about failures. */
export function openSimulatedFunctions(
  cloud: () => Cloud,
  rewards: Rewards,
  log: (line: string) => void,
): SimulatedFunctions {
  const lambda = new Lambda(cloud, rewards, log);
  const rules = Object.entries(EVENT_FUNCTIONS).map(([name, { pattern }]): EventRule => {
    const expression = pattern.replaceAll(".", "\\.").replaceAll("*", ".*");
    const queue = new EventQueue(name as keyof typeof EVENT_FUNCTIONS, lambda, cloud);
    return { pattern: new RegExp(`^${expression}$`), queue };
  });
  return {
    objectCreated: (key) => deliver(cloud(), rules, key),
    async invoke(name, event) {
      if (!(await lambda.call(name, event))) throw new Error(`${name} failed`);
    },
    startSchedule: () => startSchedule(lambda),
  };
}

function deliver({ meter, random }: Cloud, rules: readonly EventRule[], key: string): void {
  meter.events.add("objects", meter.second(), 1);
  for (const { pattern, queue } of rules) {
    if (!pattern.test(key)) continue;
    meter.events.add("targets", meter.second(), 1);
    const detail = { bucket: { name: "simulated" }, object: { key } };
    const event = { "detail-type": "Object Created", source: "aws.s3", detail };
    pause(jitter(SECONDS.event, random)).then(() => queue.send(JSON.stringify(event)));
  }
}

function startSchedule(lambda: Lambda): void {
  const tick = () => void lambda.call("tick", { "detail-type": "Scheduled Event" });
  // The first scheduled tick comes after half an interval. That is the worst case: in the middle of a step of about a minute, the most
  // work is in flight, so a tick has the most to read.
  setTimeout(() => {
    tick();
    setInterval(tick, SCHEDULE.seconds * 1000);
  }, SCHEDULE.seconds * 500);
}
