/** @file The attempts that are open in this process, by their keys. */
import type { AgentAccess } from "../../core/contracts/app-rollout.ts";
import type { RolloutPlan } from "../rollouts/rollout-plan.ts";
import { type AppTeam, Attempt } from "./attempt.ts";
import { attemptIdOf, newAttemptId, sessionKey } from "./session-keys.ts";

export interface OpenAttempts {
  open(team: AppTeam, plan: RolloutPlan): { attempt: Attempt; agents: Record<string, AgentAccess> };
  /** The attempt of a key; `over` when it has ended, `unknown` when the team never issued the key. */
  find(key: string): Attempt | "over" | "unknown";
  /** Its key is refused from now on. */
  close(attempt: Attempt): void;
}

/** @param baseUrl where apps reach the gateway, up to and including `/v1`. */
export function openAttempts(secret: string, baseUrl: () => string): OpenAttempts {
  const attempts = new Map<string, Attempt>();
  return {
    open(team, plan) {
      const attempt = new Attempt(newAttemptId(), team, plan);
      attempts.set(attempt.id, attempt);
      const access = { baseURL: baseUrl(), apiKey: sessionKey(secret, plan.address, attempt.id) };
      return {
        attempt,
        agents: Object.fromEntries(attempt.agents.map((name) => [name, { ...access, model: name }])),
      };
    },
    find(key) {
      const id = attemptIdOf(secret, key);
      if (id === undefined) return "unknown";
      return attempts.get(id) ?? "over";
    },
    close(attempt) {
      attempt.close();
      attempts.delete(attempt.id);
    },
  };
}
