/** @file A limit of an agent that a request of the app runs into. */
import type { StopReason } from "../../core/contracts/conversation.ts";

export type SessionLimit = Extract<StopReason, "token-limit" | "turn-limit">;

/** Reported to the app. If the app then gives up, that is the team's own failure. */
export class LimitReached extends Error {
  readonly limit: SessionLimit;

  constructor(limit: SessionLimit, message: string) {
    super(message);
    this.limit = limit;
  }
}
