/** @file What an attempt at a rollout is given, whether this program's own loop runs it or an app does. */
import type { Question } from "../../core/contracts/question.ts";
import type { RolloutAddress } from "../../core/contracts/rollout.ts";
import type { StreamName } from "../../core/random.ts";
import type { SamplingPlan } from "./sampling.ts";

export interface RolloutPlan extends SamplingPlan {
  readonly address: RolloutAddress;
  readonly question: Question;
  /** Agent -> its pinned version. */
  readonly versions: Readonly<Record<string, number>>;
  /** First parts of the names of its random streams: run seed and purpose. */
  readonly purpose: StreamName;
  readonly closedBook: boolean;
  /** Time limits start once it resolves; absent: immediately. */
  readonly opened?: Promise<unknown>;
  /** Unanswered calls to sub-agents: a key unique to the call -> the agent. The attempt updates it; its caller reads it. */
  readonly unanswered?: Map<string, string>;
}
