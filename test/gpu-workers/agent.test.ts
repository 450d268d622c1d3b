/** @file An agent that a process hosts: its tools are the recipe's. */
import { expect, test } from "vitest";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import { toolsOf } from "../../gpu-workers/rollouts/agent.ts";

const config = AgentConfig.parse({
  ...{ model: "scripted", policy: "recipe:relay", limits: { turns: 8, turnTokens: 400, contextTokens: 4000 } },
  tools: ["visit"],
});

test("a tool that the recipe does not have is refused, and the message says so if the recipe has no tools at all", () => {
  expect(() => toolsOf("main", config, new Map())).toThrow(
    "agents.main.tools: the recipe has no tool 'visit' (it has none)",
  );
});
