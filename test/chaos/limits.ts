/**
 * @file The time limits of a trial, in seconds. Its runs and processes are configured with them. The checker allows
 * each wait its limit, the slack and the time of whatever hindered it: see waits.ts.
 */
import { IDLE_SECONDS } from "../../adapters/aws/clients.ts";

export interface WaitLimits {
  /** A tick suspects a worker whose heartbeats stop for this long: see `heldSeconds` in waits.ts. */
  readonly lease: number;
  /** Between two scheduled ticks. */
  readonly tick: number;
  /** One attempt at a rollout, and one invocation. */
  readonly rollout: number;
  readonly invocation: number;
  /** One request to the judge or the API of a priced searcher, to the tool, or to the store. */
  readonly judge: number;
  readonly tool: number;
  readonly store: number;
  /** How much longer each wait may take: processes poll, and the machine is busy. */
  readonly slack: number;
}

export const LIMITS: WaitLimits = {
  lease: 1.5,
  tick: 0.5,
  rollout: 30,
  invocation: 20,
  judge: 15,
  tool: 2,
  store: IDLE_SECONDS,
  slack: 15,
};
