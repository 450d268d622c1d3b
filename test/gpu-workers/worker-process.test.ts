/** @file Which agent and roles a worker process may have. */
import { expect, test } from "vitest";
import type { WorkerRole } from "../../core/contracts/records.ts";
import { httpNetwork } from "../../gpu-workers/invocations/network.ts";
import { openWorkerProcess, type ServeWorkerOptions, type WorkerParts } from "../../gpu-workers/worker-process.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

test.each<[string, WorkerRole[]]>([
  ["*", ["rollout", "train"]],
  ["*", ["eval", "rollout"]],
  ["main", ["eval"]],
  ["main", ["eval", "train"]],
  ["main", ["rollout", "train", "eval"]],
])(
  "--agent %s with the roles %j is refused: only an evaluator hosts the whole team, and it does nothing else",
  async (agent, roles) => {
    const parts = { run: { name: "relay", config: relayConfig({}) } } as unknown as WorkerParts;
    const opening = openWorkerProcess(parts, { agent, roles } as unknown as ServeWorkerOptions, httpNetwork);
    await expect(opening).rejects.toMatchObject({
      code: "config-invalid",
      message: expect.stringContaining("--roles"),
    });
  },
);

test("an agent that the run does not have is refused", async () => {
  const parts = { run: { name: "relay", config: relayConfig({}) } } as unknown as WorkerParts;
  const options = { agent: "critic", roles: ["rollout", "train"] } as unknown as ServeWorkerOptions;
  await expect(openWorkerProcess(parts, options, httpNetwork)).rejects.toMatchObject({
    code: "config-invalid",
    message: `run 'relay' has no agent 'critic', only main, searcher`,
  });
});
