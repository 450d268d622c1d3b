/** @file Runs, fleets, jobs and workers for tests of fleets. */
import type { Fleet } from "../../../core/contracts/deployment.ts";
import type { FleetRecord } from "../../../core/contracts/fleet-record.ts";
import type { JobRecord, RunRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { NO_API_SPENDING } from "../../../core/training/api-spending.ts";
import {
  emptyFleetRecord,
  MAX_CAPACITY_REQUESTS,
  type RunRecords,
  workersNeeded,
} from "../../../core/training/fleets.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

export const fleetOf = (name: string, agent: string, roles: Fleet["roles"]): Fleet => ({
  ...{ name, agent, roles, group: `group-${name}`, max: 4, release: "1" },
});
export const MAIN = fleetOf("main", "main", ["rollout", "train"]);
export const SEARCHER = fleetOf("searcher", "searcher", ["rollout", "train"]);
export const EVAL = fleetOf("eval", "*", ["eval"]);
export const FLEETS = [MAIN, SEARCHER, EVAL];

export const jobOf = (suite: string, state: JobRecord["state"], team = 0): JobRecord => ({
  ...{ run: "test", job: `${suite}-${team}`, team, suite, state, owner: "", fence: 0 },
  ...{ n: 0, correct: 0, runs: [], interval: { low: 0, high: 1 } },
});
export const workerOf = (worker: string, state: WorkerRecord["state"], agent = "main"): WorkerRecord => ({
  ...{ run: "test", worker, agent, roles: ["rollout", "train"], url: "", state, release: "1" },
  ...{ counter: 1, seenCounter: 1, seenAt: 0, inFlight: [] },
});

interface Changes {
  readonly config?: Parameters<typeof teamConfig>[0];
  readonly record?: Partial<RunRecord>;
  readonly jobs?: readonly JobRecord[];
  readonly workers?: readonly WorkerRecord[];
  readonly fleets?: readonly FleetRecord[];
}
export function viewOf({ config = {}, record = {}, jobs = [], workers = [], fleets = [] }: Changes = {}): RunRecords {
  return {
    config: teamConfig(config),
    record: {
      ...{
        run: "test",
        status: "running",
        reason: "",
        step: 1,
        configSha256: "0".repeat(64),
        questionsSha256: "0".repeat(64),
      },
      ...{ startedAt: 0, maxHours: null, maxUsd: null },
      ...record,
    },
    ...{ jobs, workers, fleets, apiSpending: NO_API_SPENDING },
  };
}
export const needs = (run: RunRecords, storeTime = 0) => FLEETS.map((fleet) => workersNeeded(run, fleet, storeTime));

/** The FLEET record of a run that gave up on the fleet at this progress. */
export const givenUp = (fleet: string, progress: number): FleetRecord => ({
  ...emptyFleetRecord("test", fleet),
  ...{ capacityRequests: MAX_CAPACITY_REQUESTS + 1, progress },
});
