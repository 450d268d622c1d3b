/** @file A run whose main agent is trained by the optimizer of a Tinker server, and what its probe found. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { AgentRecord } from "../../core/contracts/records.ts";
import { type OptimizerProbe, ServerOptimizer } from "../../core/contracts/server-optimizer.ts";
import type { Store } from "../../core/ports.ts";
import { recordOptimizer } from "../../core/training/call-writes.ts";
import { RUN } from "./records.ts";

export const probe: OptimizerProbe = {
  server: "http://gpu1:8000",
  followsEpsilon: false,
  followsBeta1: false,
  rise: 1,
  learningRate: 0.01,
};

/** The config, with a server's optimizer declared for `main`. */
export function withServerOptimizer(config: RunConfig): RunConfig {
  const { main, ...others } = config.agents;
  if (!main) throw new Error("no main agent");
  const declared = { ...main, policy: `tinker:${probe.server}`, optimizer: ServerOptimizer.parse({ kind: "server" }) };
  return { ...config, agents: { ...others, main: declared } };
}

/** Writes the record of `main`, with what its trainer adds once it has probed the server. */
export async function recordProbe({ table }: Store): Promise<void> {
  const record: AgentRecord = { run: RUN, agent: "main", version: 1, trainer: "", fence: 1, takeovers: 0 };
  await table.insert(tableKeys.agent(RUN, "main"), { ...record });
  await table.update(recordOptimizer(RUN, "main", probe));
}
