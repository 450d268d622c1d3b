/** @file The conditional writes of fleets obey the laws of write-laws.ts. */
import type { FleetRecord } from "../../../core/contracts/fleet-record.ts";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { TableItem } from "../../../core/ports.ts";
import {
  claimFleetSlot,
  countCapacityRequest,
  recordFleetRefusal,
  resetFleet,
  uncountCapacityRequest,
} from "../../../core/training/fleet-writes.ts";
import { checkLaws } from "./write-laws.ts";

const fleet: FleetRecord = {
  ...{ run: "r", fleet: "main", fleetSlots: { "0": "w1" }, progress: 7, capacityRequests: 2, refusal: null },
};
const refusal = { release: "1", reason: "no such tool" };
const key = tableKeys.fleet("r", "main");
const before = fleet as unknown as TableItem;

checkLaws({
  "claimFleetSlot, a free one": {
    change: () => claimFleetSlot(fleet, "1", "w2"),
    ...{ key, before, after: { fleetSlots: { "0": "w1", "1": "w2" } }, repeat: "is refused" },
    refusedWith: [{ fleetSlots: { "1": "w3" } }],
  },
  "claimFleetSlot, a dead worker's": {
    change: () => claimFleetSlot(fleet, "0", "w2"),
    ...{ key, before, after: { fleetSlots: { "0": "w2" } }, repeat: "is refused" },
    refusedWith: [{ fleetSlots: { "0": "w3" } }, { fleetSlots: {} }],
  },
  "countCapacityRequest, another one": {
    change: () => countCapacityRequest(fleet, 7),
    ...{ key, before, after: { capacityRequests: 3 }, repeat: "is refused" },
    refusedWith: [{ progress: 8 }, { capacityRequests: 3 }],
  },
  "countCapacityRequest, the first one since the run progressed": {
    change: () => countCapacityRequest(fleet, 8),
    ...{ key, before, after: { progress: 8, capacityRequests: 1 }, repeat: "is refused" },
    refusedWith: [{ progress: 6 }, { capacityRequests: 0 }],
  },
  "uncountCapacityRequest, another one": {
    change: () => uncountCapacityRequest(fleet, 7),
    ...{ key, before: { ...before, capacityRequests: 3 }, after: { capacityRequests: 2 }, repeat: "is refused" },
    refusedWith: [{ progress: 8 }, { capacityRequests: 4 }],
  },
  "uncountCapacityRequest, the first one since the run progressed": {
    change: () => uncountCapacityRequest(fleet, 8),
    ...{ key, before: { ...before, progress: 8, capacityRequests: 1 }, repeat: "is refused" },
    after: { progress: 7, capacityRequests: 2 },
    refusedWith: [{ progress: 7 }, { capacityRequests: 2 }],
  },
  recordFleetRefusal: {
    change: () => recordFleetRefusal(fleet, refusal),
    ...{ key, before, after: { refusal }, repeat: "changes nothing", refusedWith: [] },
  },
  resetFleet: {
    change: () => resetFleet(fleet),
    ...{ key, before: { ...before, refusal }, after: { capacityRequests: 0, refusal: null }, repeat: "is refused" },
    refusedWith: [{ capacityRequests: 3 }],
  },
});
