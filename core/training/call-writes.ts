/** @file The conditional writes of a trainer's calls to its server (CALLS), as data. Doing one again sets what is already there. */
import { tableKeys } from "../contracts/keys.ts";
import type { TinkerCalls } from "../contracts/tinker-calls.ts";
import type { TableChange } from "../ports.ts";

/** Makes a worker the only writer, whoever was. What the item then says is the last that another wrote: nobody else can any more. */
export function takeCalls(run: string, agent: string, worker: string): TableChange {
  return { key: tableKeys.calls(run, agent), set: [[["writer"], worker]], when: [{ exists: ["writer"] }] };
}

/** Writes down what is about to be called. Fails once another worker has taken the calls. */
export function writeCalls(run: string, agent: string, worker: string, calls: TinkerCalls | null): TableChange {
  return {
    key: tableKeys.calls(run, agent),
    set: [[["calls"], calls]],
    when: [{ equals: [["writer"], worker] }],
  };
}
