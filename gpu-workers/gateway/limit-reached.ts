/** @file The error of a request from the app that would exceed one of an agent's limits. */
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
