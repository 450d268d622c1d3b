/** @file The writes of FLEET records, as data. The other records: writes.ts. */
import { boundReason } from "../contracts/bounds.ts";
import type { FleetRecord } from "../contracts/fleet-record.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { TableChange, TableCondition } from "../ports.ts";
import { equals } from "./writes.ts";

/** Why an instance of this release does not serve the run. */
export type FleetRefusal = NonNullable<FleetRecord["refusal"]>;

const fleetKey = ({ run, fleet }: Pick<FleetRecord, "run" | "fleet">) => tableKeys.fleet(run, fleet);

/** Gives a worker this slot of its fleet, if it is still as in `known`: free, or held by a worker that the caller found dead. */
export function claimFleetSlot(known: FleetRecord, slot: string, worker: string): TableChange {
  const path = ["fleetSlots", slot];
  const before = known.fleetSlots[slot];
  const when: TableCondition = before === undefined ? { absent: path } : { equals: [path, before] };
  return { key: fleetKey(known), set: [[path, worker]], when: [when] };
}

type CapacityCount = Pick<FleetRecord, "progress" | "capacityRequests">;

/** Counts one more request for instances at this `progress` of the run. Repeated, the change fails: the first has altered `progress` or the count. */
export function countCapacityRequest(known: FleetRecord, progress: number): TableChange {
  return replaceCount(known, known, incrementedCount(known, progress));
}

/** Takes back `countCapacityRequest` with the same arguments, unless the count has changed since. */
export function uncountCapacityRequest(known: FleetRecord, progress: number): TableChange {
  return replaceCount(known, incrementedCount(known, progress), known);
}

export const incrementedCount = (before: CapacityCount, progress: number): CapacityCount => ({
  progress,
  capacityRequests: before.progress === progress ? before.capacityRequests + 1 : 1,
});

function replaceCount(known: FleetRecord, from: CapacityCount, to: CapacityCount): TableChange {
  return {
    key: fleetKey(known),
    set: [
      [["progress"], to.progress],
      [["capacityRequests"], to.capacityRequests],
    ],
    when: [equals("progress", from.progress), equals("capacityRequests", from.capacityRequests)],
  };
}

/** Records why an instance does not serve the run. The latest refusal wins; a repeat writes the same value. */
export function recordFleetRefusal(
  known: Pick<FleetRecord, "run" | "fleet">,
  { release, reason }: FleetRefusal,
): TableChange {
  return { key: fleetKey(known), set: [[["refusal"], { release, reason: boundReason(reason) }]], when: [] };
}

/** Clears the count of requests and the refusal, so that a relaunched run gets new instances. */
export function resetFleet(known: FleetRecord): TableChange {
  return {
    key: fleetKey(known),
    set: [
      [["capacityRequests"], 0],
      [["refusal"], null],
    ],
    when: [equals("capacityRequests", known.capacityRequests)],
  };
}
