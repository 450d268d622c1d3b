/**
 * @file What the simulation takes for granted: how long things take that it does not run. None of it is measured here; requests, units,
 * items and events do not depend on it, durations and peaks of a second do.
 */
import { CONNECTIONS } from "../../adapters/aws/clients.ts";

/** Mean seconds, each draw uniform between half and one and a half of it. */
export const SECONDS = {
  /** A request within the region, as its caller waits. */
  dynamo: 0.005,
  s3Read: 0.02,
  s3Write: 0.04,
  /** From the PUT of an object to the message in the queue: S3, EventBridge, SQS. */
  event: 0.5,
  /** One turn of an agent, tool included. */
  turn: 6,
  /** A call between workers, one way. */
  call: 0.001,
} as const;

/** Processor seconds of a function, per request it makes to the store: the SDK, JSON, the schemas, at 1 GB (0.6 of a core). */
export const CPU_PER_REQUEST = 0.002;
/** Seconds of a cold start that are billed: Node.js and the import of the bundle (`npm run bench -- bundles`). */
export const COLD_START = 0.4;
/** Seconds that an instance of a function is kept without calls. */
export const KEPT_WARM = 300;
/** Requests in flight of one process, to each service. */
export const IN_FLIGHT = CONNECTIONS;

/** Sequences that a worker samples together: a machine for models of some billion weights. */
export const SLOTS = 256;
/** Calls of sub-agents in a rollout -> its chance: about what atlas comes to. */
export const CALLS = [0.1, 0.55, 0.35] as const;
/** Chances of an answer that is right, and of a turn that is malformed: without them nothing would be learnt. */
export const RIGHT = 0.6;
export const MALFORMED = 0.05;

/** Shares of a step: until when its rollouts are to end, and what training takes at least. */
export const ROLLOUT_SHARE = 0.7;
export const LEAST_TRAINING_SHARE = 0.1;
