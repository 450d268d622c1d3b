/** @file The journal of an agent's trainer in the run's table, where whoever takes the training over finds it. */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { TinkerCallsRecord } from "../../core/contracts/tinker-calls.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CallJournal } from "../../core/ports.ts";
import { takeCalls, writeCalls } from "../../core/training/call-writes.ts";
import type { RunContext } from "../run-context.ts";

/** There is no item for an agent whose engine does not take it. */
export function callJournal(
  { name, store: { table } }: Pick<RunContext, "name" | "store">,
  agent: string,
  worker: string,
): CallJournal {
  return {
    async take() {
      const first: TinkerCallsRecord = { run: name, agent, writer: worker, calls: null };
      await table.insert(tableKeys.calls(name, agent), first);
      const { item } = await table.update(takeCalls(name, agent, worker));
      return parse(TinkerCallsRecord, item, `calls of agent '${agent}' of run '${name}'`).calls;
    },
    async write(calls) {
      const { applied } = await table.update(writeCalls(name, agent, worker, calls));
      if (applied) return;
      throw new MgrpoError("claim-lost", `run '${name}': another worker trains agent '${agent}' now`);
    },
  };
}
