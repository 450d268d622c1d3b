/**
 * @file A rollout that an app runs: what the app is given per attempt, the rewards that it may send meanwhile, and what it returns.
 * docs/your-own-agents.md is the guide.
 */
import * as z from "zod";
import { Reason } from "./bounds.ts";
import { UnitScore } from "./judge.ts";
import { AgentName } from "./names.ts";
import { Question } from "./question.ts";

/** How the app reaches one agent: what every OpenAI client takes. */
export const AgentAccess = z.strictObject({
  baseURL: z.url(),
  /** Good for this attempt only. */
  apiKey: z.string(),
  /** The agent's name: the `model` of requests. */
  model: AgentName,
});
export type AgentAccess = z.infer<typeof AgentAccess>;

/** Body of the POST to an app: one attempt at a question. */
export const AppCall = z.strictObject({
  question: Question.omit({ answer: true, canary: true }),
  agents: z.record(AgentName, AgentAccess),
  /** Seconds until the attempt is abandoned. */
  seconds: z.number().positive(),
});
export type AppCall = z.infer<typeof AppCall>;

/** Body of `POST <baseURL>/rewards`: rewards of the attempt, given while it runs. */
export const GivenRewards = z
  .strictObject({ reward: UnitScore.exactOptional(), rewards: z.record(AgentName, UnitScore).exactOptional() })
  .refine(({ reward, rewards }) => reward !== undefined || Object.keys(rewards ?? {}).length > 0, "it gives no reward");
export type GivenRewards = z.infer<typeof GivenRewards>;

/**
 * What an app returns. `answer`: scored by the recipe's rewards. `reward`: takes the place of the recipe's `correct`, and `rewards` of its
 * `expert`, by sub-agent. `failed`: the team's own failure, which is rewarded as a malformed conversation.
 */
export const AppResult = z.union([
  z.strictObject({
    answer: z.string(),
    reward: UnitScore.exactOptional(),
    rewards: z.record(AgentName, UnitScore).exactOptional(),
  }),
  z.strictObject({ reward: UnitScore, rewards: z.record(AgentName, UnitScore).exactOptional() }),
  z.strictObject({ failed: Reason }),
]);
export type AppResult = z.infer<typeof AppResult>;
