/** @file The conditional writes of the record of a trainer's calls to its Tinker server (CALLS), as data. Repeating one changes nothing. */
import { tableKeys } from "../contracts/keys.ts";
import type { TinkerCalls } from "../contracts/tinker-calls.ts";
import type { TableChange } from "../ports.ts";

/** Makes a worker the only writer. From then on no other worker's write succeeds, so the item that this returns is final. */
export function takeCalls(run: string, agent: string, worker: string): TableChange {
  return { key: tableKeys.calls(run, agent), set: [[["writer"], worker]], when: [{ exists: ["writer"] }] };
}

/** Records the next call before it is made. Fails once another worker is the writer. */
export function writeCalls(run: string, agent: string, worker: string, calls: TinkerCalls | null): TableChange {
  return {
    key: tableKeys.calls(run, agent),
    set: [[["calls"], calls]],
    when: [{ equals: [["writer"], worker] }],
  };
}
