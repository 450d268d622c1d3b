/** @file An embedded cloud that nothing was written to. */
import type { EmbeddedCloud } from "../../cli/local/embedded-cloud.ts";

// The cast: these are all the members of a cloud that a run's history reads.
export const idleCloud = {
  environment: {},
  takeScoringSeconds: () => 0,
  writes: () => ({ requests: 0, bytes: 0, units: 0 }),
} as unknown as EmbeddedCloud;
