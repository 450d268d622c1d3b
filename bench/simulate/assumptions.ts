/**
 * @file The assumptions of the simulation: durations, sizes and probabilities of what it does not run. None is measured on AWS. Requests, units,
 * items and events hardly depend on the durations; times and peaks per second do.
 */
import { CONNECTIONS } from "../../adapters/aws/clients.ts";

/** Mean seconds. Each draw is uniform between 0.5 and 1.5 times the mean, except for `call`, which is constant. */
export const SECONDS = {
  /** A request within the region, as seen by its caller. */
  dynamo: 0.005,
  s3Read: 0.02,
  s3Write: 0.04,
  /** From the PUT of an object to the message in the queue: S3, EventBridge, SQS. */
  event: 0.5,
  /** One turn of an agent, tools included. */
  turn: 6,
  /** From a call of one worker to its arrival at another. The response takes no time. */
  call: 0.001,
} as const;

/** CPU time of a function per request to the store: the SDK, JSON, the schemas, at 1 GB (0.6 of a core). */
export const CPU_SECONDS_PER_REQUEST = 0.002;
/** Billed time of a cold start: Node.js and the import of the bundle (`npm run bench -- bundles`). */
export const COLD_START_SECONDS = 0.4;
/** How long Lambda keeps an idle instance. */
export const KEEP_WARM_SECONDS = 300;
/** Maximum requests in flight per process and service. */
export const MAX_IN_FLIGHT = CONNECTIONS;

/** Sequences that a worker samples together, on a machine for models of a few billion parameters. */
export const SLOTS = 256;
/**
 * Index: number of sub-agent calls in a rollout; value: its probability, roughly as in atlas. A rollout whose first turn is malformed makes no
 * call.
 */
export const CALL_PROBABILITIES = [0.1, 0.55, 0.35] as const;
/**
 * Probability that an answer after the first turn is correct. An answer in the first turn always is. The probability is below 1 because a group
 * whose rewards are all equal gives no gradient.
 */
export const CORRECT_PROBABILITY = 0.6;
/** Probability of a malformed turn. */
export const MALFORMED_PROBABILITY = 0.05;

/** Shares of a step's duration: the time in which its rollouts should end, and the minimum for training. */
export const ROLLOUT_SHARE = 0.7;
export const MIN_TRAINING_SHARE = 0.1;
