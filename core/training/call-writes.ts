/**
 * @file Conditional writes of a trainer, as data: the record of its calls to a Tinker server (CALLS), measurements of that server's optimizer,
 * and the release of its claim on an agent whose step it could not complete. Each is safe to repeat.
 */
import { tableKeys } from "../contracts/keys.ts";
import type { OptimizerProbe } from "../contracts/server-optimizer.ts";
import type { TinkerCalls } from "../contracts/tinker-calls.ts";
import type { TableChange } from "../ports.ts";
import { equals } from "./writes.ts";

/**
 * Makes a worker the only writer, until another worker claims the record. The previous writer's writes fail from then on, so the item that the
 * update returns has that writer's last call.
 */
export function claimCalls(run: string, agent: string, worker: string): TableChange {
  return { key: tableKeys.calls(run, agent), set: [[["writer"], worker]], when: [{ exists: ["writer"] }] };
}

/** Records the next call before it is made, or null when there is nothing to continue from. Fails once another worker is the writer. */
export function writeCalls(run: string, agent: string, worker: string, calls: TinkerCalls | null): TableChange {
  return {
    key: tableKeys.calls(run, agent),
    set: [[["calls"], calls]],
    when: [equals("writer", worker)],
  };
}

/** Records the measurements of the optimizer that trains the agent. */
export function recordOptimizer(run: string, agent: string, optimizer: OptimizerProbe): TableChange {
  return { key: tableKeys.agent(run, agent), set: [[["optimizer"], optimizer]], when: [{ exists: ["version"] }] };
}

/** Releases the claim of a trainer that could not complete its step. It counts as a takeover: the third without a new version halts the run. */
export function yieldTrainer(run: string, agent: string, worker: string): TableChange {
  return {
    key: tableKeys.agent(run, agent),
    set: [[["trainer"], ""]],
    add: [[["takeovers"], 1]],
    when: [equals("trainer", worker)],
  };
}
