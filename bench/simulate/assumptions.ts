/**
 * @file The assumptions of the simulation: durations, sizes and probabilities of what it does not run. None is measured on AWS. Requests, units,
 * items and events do not depend on the durations; times and peaks per second do.
 */
import { CONNECTIONS } from "../../adapters/aws/clients.ts";

/** Mean seconds; each draw is uniform between 0.5 and 1.5 times the mean. */
export const SECONDS = {
  /** A request within the region, as seen by its caller. */
  dynamo: 0.005,
  s3Read: 0.02,
  s3Write: 0.04,
  /** From the PUT of an object to the message in the queue: S3, EventBridge, SQS. */
  event: 0.5,
  /** One turn of an agent, tools included. */
  turn: 6,
  /** A call between workers, one way. */
  call: 0.001,
} as const;

/** A function's CPU seconds per request to the store: the SDK, JSON, the schemas, at 1 GB (0.6 of a core). */
export const CPU_PER_REQUEST = 0.002;
/** Billed seconds of a cold start: Node.js and the import of the bundle (`npm run bench -- bundles`). */
export const COLD_START = 0.4;
/** Seconds for which Lambda keeps an idle instance. */
export const KEPT_WARM = 300;
/** Maximum requests in flight per process and service. */
export const IN_FLIGHT = CONNECTIONS;

/** Sequences that a worker samples together, on a machine for models of a few billion parameters. */
export const SLOTS = 256;
/** Index: number of sub-agent calls in a rollout; value: its probability. Roughly as in atlas. */
export const CALLS = [0.1, 0.55, 0.35] as const;
/** Probabilities of a correct answer and of a malformed turn. Equal rewards would give no gradient. */
export const CORRECT = 0.6;
export const MALFORMED = 0.05;

/** Shares of a step's duration: by when its rollouts should have ended, and the minimum for training. */
export const ROLLOUT_SHARE = 0.7;
export const MIN_TRAINING_SHARE = 0.1;
