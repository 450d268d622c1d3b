/** @file An agent that a process hosts: it may use only its recipe's tools, and a version that opens too late for its caller is released. */
import { expect, test } from "vitest";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import { acquireLease, toolsOf } from "../../gpu-workers/rollouts/agent.ts";
import type { Lease } from "../../gpu-workers/rollouts/policy-versions.ts";

const config = AgentConfig.parse({
  ...{ model: "scripted", policy: "recipe:relay", limits: { turns: 8, turnTokens: 400, contextTokens: 4000 } },
  tools: ["visit"],
});

test("a tool that the recipe does not have is refused, and the message says so if the recipe has no tools at all", () => {
  expect(() => toolsOf("main", config, new Map())).toThrow(
    "agents.main.tools: the recipe has no tool 'visit' (it has none)",
  );
});

test("a version that opens after its caller has given up is released; otherwise it would stay in memory until the process ends", async () => {
  let open = (_lease: Lease) => {};
  const opened = new Promise<Lease>((resolve) => {
    open = resolve;
  });
  const stop = new AbortController();
  const acquiring = acquireLease({ acquire: () => opened }, 0, stop.signal);
  stop.abort();
  await expect(acquiring).rejects.toMatchObject({ code: "canceled" });
  await new Promise<void>((resolve) => open({ release: resolve } as Partial<Lease> as Lease));
});
