/** @file The conditional writes of FLEET records, as data. The other records: writes.ts. */
import { boundReason } from "../contracts/bounds.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { FleetRecord } from "../contracts/records.ts";
import type { TableChange, TableCondition, TableValue } from "../ports.ts";

const is = (attribute: string, value: TableValue): TableCondition => ({ equals: [[attribute], value] });

type FleetRefusal = NonNullable<FleetRecord["refusal"]>;

const fleetKey = ({ run, fleet }: Pick<FleetRecord, "run" | "fleet">) => tableKeys.fleet(run, fleet);

/** Gives a worker one of its fleet's places in a run: a free one, or a dead worker's. */
export function claimPlace(known: FleetRecord, place: string, worker: string): TableChange {
  const path = ["places", place];
  const before = known.places[place];
  const when: TableCondition = before === undefined ? { absent: path } : { equals: [path, before] };
  return { key: fleetKey(known), set: [[path, worker]], when: [when] };
}

/** Counts a request for instances made while the run is at `progress`. A repeat fails its condition: the count has changed. */
export function countRaise(known: FleetRecord, progress: number): TableChange {
  return {
    key: fleetKey(known),
    set: [
      [["progress"], progress],
      [["raises"], known.progress === progress ? known.raises + 1 : 1],
    ],
    when: [is("progress", known.progress), is("raises", known.raises)],
  };
}

/** Records why an instance does not serve the run. The latest refusal wins; a repeat writes the same value. */
export function recordFleetRefusal(
  known: Pick<FleetRecord, "run" | "fleet">,
  { release, reason }: FleetRefusal,
): TableChange {
  return { key: fleetKey(known), set: [[["refusal"], { release, reason: boundReason(reason) }]], when: [] };
}

/** Resets requests and refusals, so that a run that is launched again gets new instances. */
export function resetFleet(known: FleetRecord): TableChange {
  return {
    key: fleetKey(known),
    set: [
      [["raises"], 0],
      [["refusal"], null],
    ],
    when: [is("raises", known.raises)],
  };
}
