/**
 * @file The journal of calls to an agent's training server, in the store's table, one record per agent of a run: the next trainer of the
 * agent reads it there.
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { TinkerCallsRecord } from "../../core/contracts/tinker-calls.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CallJournal } from "../../core/ports.ts";
import { claimCalls, writeCalls } from "../../core/training/call-writes.ts";
import type { RunContext } from "../run-context.ts";

/** The record is created on the first `take`, so an agent whose engine needs no journal has none. */
export function callJournal(
  { name, store: { table } }: Pick<RunContext, "name" | "store">,
  agent: string,
  worker: string,
): CallJournal {
  return {
    async take() {
      const first: TinkerCallsRecord = { run: name, agent, writer: worker, calls: null };
      await table.insert(tableKeys.calls(name, agent), first);
      const { item } = await table.update(claimCalls(name, agent, worker));
      return parse(TinkerCallsRecord, item, `calls of agent '${agent}' of run '${name}'`).calls;
    },
    async write(calls) {
      const { applied } = await table.update(writeCalls(name, agent, worker, calls));
      if (applied) return;
      throw new MgrpoError("claim-lost", `run '${name}': another worker trains agent '${agent}' now`);
    },
  };
}
