/**
 * @file The one trainer's place of an agent: taken when empty, or, once a step is ready, from a worker that is dead. It saves work; the
 * manifest decides. While a step is open nobody takes it over: a worker that died then may have died of a rollout, which is counted
 * against that; and its suspects run with no training beside them.
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { claimTrainer, releaseTrainer } from "../../core/training/writes.ts";
import type { Observer } from "../liveness/observer.ts";
import type { Run } from "../run.ts";

export interface TrainerPlace {
  /** True once this worker holds the place; false while another does, unless that one is dead and may be replaced. */
  take(mayReplace: boolean): Promise<boolean>;
  release(): Promise<void>;
}

export function trainerPlace({ name, store }: Run, agent: string, worker: string, observer: Observer): TrainerPlace {
  const { table } = store;
  const read = async () =>
    parse(AgentRecord, await table.get(tableKeys.agent(name, agent)), `record of agent '${agent}' of run '${name}'`);

  return {
    async take(mayReplace) {
      const record = await read();
      if (record.trainer === worker) return true;
      if (record.trainer !== "") {
        await observer.look();
        if (!mayReplace || !observer.isDead(record.trainer)) return false;
      }
      const { item } = await table.update(claimTrainer(record, worker));
      return item?.["trainer"] === worker;
    },
    async release() {
      await table.update(releaseTrainer(name, agent, worker));
    },
  };
}
