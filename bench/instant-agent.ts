/**
 * @file An agent whose policy responds instantly, with the tokenizer of atlas's planner, behind a gateway: for benchmarks of the code
 * around a policy.
 */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { AgentConfig } from "../core/contracts/agent-config.ts";
import type { RolloutAddress } from "../core/contracts/rollout.ts";
import type { Sampler, Tokenizer } from "../core/ports.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import { AgentSessions } from "../gpu-workers/gateway/agent-sessions.ts";
import { gatewayApp } from "../gpu-workers/gateway/api/app.ts";
import { openAttempts } from "../gpu-workers/gateway/attempts.ts";
import { serveApp } from "../gpu-workers/invocations/server.ts";
import { createLog } from "../gpu-workers/log.ts";
import type { HostedAgent } from "../gpu-workers/rollouts/agent.ts";
import type { PolicyVersions } from "../gpu-workers/rollouts/policy-versions.ts";
import { tokenBackend } from "../gpu-workers/rollouts/token-backend.ts";

const REPLY_TOKENS = 12;

export const sampling = { temperature: 1, topP: 1, topK: 0 };

export function openInstantAgent(turns: number) {
  const model = join(dirname(fileURLToPath(builtModule("recipes/atlas/recipe"))), "models", "main");
  const names = ["tokenizer.json", "tokenizer_config.json", "generation_config.json"];
  const tokenizer = openTokenizer(new Map(names.map((name) => [name, readFileSync(join(model, name))])));
  const sampler = instantSampler(tokenizer);
  const config = AgentConfig.parse({ model, limits: { turns, turnTokens: 48, contextTokens: 1000 } });
  const agent: HostedAgent = {
    name: "main",
    config,
    policy: policyOf(sampler, tokenizer),
    tools: new Map(),
    draws: "place",
  };
  return { agent, config, tokenizer, sampler };
}

/** Every sample has the same tokens and is returned instantly, so that only the code around the policy is measured. */
function instantSampler({ encodeText, endOfTurn }: Tokenizer): Sampler {
  const content = encodeText("country with borders Cuba, currency Qatari riyal and more").slice(0, REPLY_TOKENS - 1);
  const tokens = [...content, endOfTurn];
  const logProbs = tokens.map(() => -0.5);
  return { sample: async () => ({ tokens, logProbs, stop: "stop" }), release() {}, async close() {} };
}

function policyOf(sampler: Sampler, tokenizer: Tokenizer): PolicyVersions {
  const lease = {
    backend: (options: Parameters<typeof tokenBackend>[0]) => tokenBackend(options, tokenizer, sampler),
    inference: { sampler, tokenizer },
    release() {},
  };
  return {
    acquire: async () => lease,
    open: async () => {},
    isLoadingOther: () => false,
    close: async () => {},
  };
}

export function addressOf(rollout: number): RolloutAddress {
  return { run: "bench", phase: "train", step: 0, group: 0, rollout };
}

export function rolloutPrompt(rollout: number): string {
  return `Which country borders Cuba and uses the Qatari riyal, in world ${rollout}?`;
}

/** A gateway on a free port. Its attempts have a team of this agent alone. */
export async function openGateway(agent: ReturnType<typeof openInstantAgent>["agent"], maxBranches: number) {
  let base = "";
  const attempts = openAttempts("a secret of the bench", () => base);
  const log = createLog(() => {});
  const server = await serveApp(gatewayApp("gateway", attempts, log), "127.0.0.1", 0);
  base = `http://127.0.0.1:${server.port}/gateway/v1`;
  return {
    attempts,
    open(rollout: number) {
      const sessions = new AgentSessions(agent, [1, "sample"], maxBranches, 0);
      const team = { main: { name: "main", sessions }, subs: new Map() };
      const question = { id: "q", kind: "k", level: 1, prompt: rolloutPrompt(rollout), answer: "", facts: null };
      const plan = {
        address: addressOf(rollout),
        question,
        versions: { main: 0 },
        sampling,
        purpose: [],
        closedBook: false,
      };
      const { attempt, agents } = attempts.open(team, plan);
      return { attempt, key: agents["main"]?.apiKey ?? "", base };
    },
    close: () => server.close(),
  };
}
