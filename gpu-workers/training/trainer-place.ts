/**
 * @file The one trainer's place of an agent: taken when empty, or, once a step is ready, from a worker that is dead. It saves work; the
 * manifest decides. While a step is open nobody takes it over: a worker that died then may have died of a rollout, which is counted
 * against that; and its suspects run with no training beside them. In a ready step one may have died of the next one's rollouts, which
 * begin when a version is foreseen: so after a takeover nothing is.
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { claimTrainer, releaseTrainer } from "../../core/training/writes.ts";
import type { Observer } from "../liveness/observer.ts";
import type { RunContext } from "../run-context.ts";

export interface Held {
  /** How often the place was taken over since the last version. */
  readonly takeovers: number;
}

export interface TrainerPlace {
  /** Undefined while another worker holds the place, unless that one is dead and may be replaced. */
  take(mayReplace: boolean): Promise<Held | undefined>;
  release(): Promise<void>;
}

export function trainerPlace(
  { name, store }: RunContext,
  agent: string,
  worker: string,
  observer: Observer,
): TrainerPlace {
  const { table } = store;
  const read = async () =>
    parse(AgentRecord, await table.get(tableKeys.agent(name, agent)), `record of agent '${agent}' of run '${name}'`);

  return {
    async take(mayReplace) {
      const record = await read();
      if (record.trainer === worker) return record;
      if (record.trainer !== "") {
        await observer.look();
        if (!mayReplace || !observer.isDead(record.trainer)) return undefined;
      }
      const { item } = await table.update(claimTrainer(record, worker));
      const now = parse(AgentRecord, item, `record of agent '${agent}' of run '${name}'`);
      return now.trainer === worker ? now : undefined;
    },
    async release() {
      await table.update(releaseTrainer(name, agent, worker));
    },
  };
}
