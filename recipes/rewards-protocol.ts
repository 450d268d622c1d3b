/** @file Messages between a process and the thread that runs the rewards of a user's recipe (isolated-rewards.ts). */
import type { Conversation } from "../core/contracts/conversation.ts";
import type { Judgment } from "../core/contracts/judge.ts";
import type { Question } from "../core/contracts/question.ts";
import type { PortableError } from "../core/portable-error.ts";

/** One call of the user's code. */
export type RewardsCall =
  | { readonly method: "correct"; readonly question: Question; readonly conversation: Conversation }
  | {
      readonly method: "expert";
      readonly question: Question;
      readonly agent: string;
      readonly conversation: Conversation;
    };

export type ToRewards =
  | { readonly kind: "call"; readonly id: number; readonly call: RewardsCall; readonly hasContext: boolean }
  /** The call's deadline has passed, or its caller has canceled it. */
  | { readonly kind: "abort"; readonly id: number }
  | { readonly kind: "reserved"; readonly reservation: number; readonly error?: PortableError };

export type FromRewards =
  | { readonly kind: "open"; readonly judge?: string }
  | { readonly kind: "failed"; readonly error: PortableError }
  | { readonly kind: "judgment"; readonly id: number; readonly judgment: Judgment }
  | { readonly kind: "error"; readonly id: number; readonly error: PortableError }
  /** A call of `VerdictContext.reserve`; `reserved` answers it. */
  | { readonly kind: "reserve"; readonly id: number; readonly reservation: number; readonly usd: number };
