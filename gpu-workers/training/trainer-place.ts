/** @file The one trainer's place of an agent: taken when empty, or from a worker that is dead. It saves work; the manifest decides. */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { advanceAgent, claimTrainer, releaseTrainer } from "../../core/training/writes.ts";
import type { Observer } from "../liveness/observer.ts";
import type { Run } from "../run.ts";

export interface TrainerPlace {
  /** True once this worker holds the place; false while a live worker does. */
  take(): Promise<boolean>;
  /** Moves the cache of the agent's newest version up to one that was seen published. */
  advanceTo(version: number): Promise<void>;
  release(): Promise<void>;
}

export function trainerPlace({ name, store }: Run, agent: string, worker: string, observer: Observer): TrainerPlace {
  const { table } = store;
  const read = async () =>
    parse(AgentRecord, await table.get(tableKeys.agent(name, agent)), `record of agent '${agent}' of run '${name}'`);

  return {
    async take() {
      const record = await read();
      if (record.trainer === worker) return true;
      if (record.trainer !== "") {
        await observer.look();
        if (!observer.isDead(record.trainer)) return false;
      }
      const { item } = await table.update(claimTrainer(record, worker));
      return item?.["trainer"] === worker;
    },
    async advanceTo(version) {
      for (let record = await read(); record.version < version; record = await read()) {
        await table.update(advanceAgent(record));
      }
    },
    async release() {
      await table.update(releaseTrainer(name, agent, worker));
    },
  };
}
