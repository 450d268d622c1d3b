/** @file The record FLEET: what a run knows about one fleet. */
import * as z from "zod";
import { Reason, RecordedText } from "./bounds.ts";
import { AgentName, RunName, WorkerId } from "./names.ts";

/** The state of a fleet for one run. */
export const FleetRecord = z.strictObject({
  run: RunName,
  fleet: AgentName,
  /** Fleet slot -> the worker that holds it. Slots are 0, 1, ... below the number of workers that the run needs from this fleet. */
  fleetSlots: z.record(z.string(), WorkerId),
  /** The run's progress at the last request for instances. */
  progress: z.int().nonnegative(),
  /** Requests for instances at that progress. */
  capacityRequests: z.int().nonnegative(),
  /** Why an instance does not serve the run, and its release: no other instance of that release would either. */
  refusal: z.strictObject({ release: RecordedText, reason: Reason }).nullable(),
});
export type FleetRecord = z.infer<typeof FleetRecord>;
