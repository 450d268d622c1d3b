/**
 * @file The claim to be the only trainer of an agent. It is taken when free or, in a ready step, taken over from a dead worker. It only
 * avoids duplicate work; the commit of the manifest decides.
 *
 * Nobody takes over in an open step: the worker may have died of a rollout. The rollouts that it had claimed are suspects, and run alone while
 * nothing trains this policy. In a ready step it may have died of a later step's rollouts. Those are suspects then, and wait until
 * RUN points to their step (rollouts/claiming.ts), so they do not cost this step another trainer.
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { yieldTrainer } from "../../core/training/call-writes.ts";
import { claimTrainer, releaseTrainer } from "../../core/training/writes.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import type { RunContext } from "../run-context.ts";

export interface TrainerClaim {
  /** False while another worker holds the claim, unless that worker is dead and `mayTakeOver` is set. */
  acquire(mayTakeOver: boolean): Promise<boolean>;
  release(): Promise<void>;
  /** Gives the claim up after a step that failed here. It counts as a takeover. */
  yield(): Promise<void>;
}

export function openTrainerClaim(
  { name, store: { table } }: RunContext,
  agent: string,
  worker: string,
  observer: WorkerObserver,
): TrainerClaim {
  const read = (item: unknown) => parse(AgentRecord, item, `record of agent '${agent}' of run '${name}'`);
  return {
    async acquire(mayTakeOver) {
      const record = read(await table.get(tableKeys.agent(name, agent)));
      if (record.trainer === worker) return true;
      if (record.trainer !== "") {
        await observer.refresh();
        if (!mayTakeOver || !observer.isDead(record.trainer)) return false;
      }
      const { item } = await table.update(claimTrainer(record, worker));
      return read(item).trainer === worker;
    },
    async release() {
      await table.update(releaseTrainer(name, agent, worker));
    },
    async yield() {
      await table.update(yieldTrainer(name, agent, worker));
    },
  };
}
