/**
 * @file The bits of the default run: what results/bits.json records, and how a run's weights compare with it. The same config gives the
 * same bits on the same kind of machine. Another processor may round differently, since the runtime chooses its kernels by the vector
 * instructions that it finds, and so may another V8; there, different bits are no fault.
 */
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import * as z from "zod";
import type { RunReport } from "../../cli/run-report.ts";
import { Arm } from "../../core/contracts/config.ts";
import { AgentName, Sha256 } from "../../core/contracts/names.ts";

export const Bits = z.strictObject({
  recipe: z.string(),
  arm: Arm,
  seed: z.int(),
  /** What computed them (`thisMachine`). */
  machine: z.string(),
  /** Steps of the run -> agent -> SHA-256 of its final weights. No run is the start of a longer one: the learning rate falls to 0 in each. */
  sha256: z.record(z.string().regex(/^\d+$/), z.record(AgentName, Sha256)),
});
export type Bits = z.infer<typeof Bits>;

export interface Verdict {
  readonly is: "same" | "changed" | "another machine" | "another run";
  readonly message: string;
}

export function compareBits(
  recorded: Bits,
  run: Pick<RunReport, "recipe" | "arm" | "seed" | "steps" | "agents">,
  machine: string,
): Verdict {
  const expected = recorded.sha256[run.steps];
  const keys = ["recipe", "arm", "seed"] as const;
  const other = keys.find((key) => run[key] !== recorded[key]);
  if (other) return { is: "another run", message: `its ${other} is ${run[other]}, and ${recorded[other]} is recorded` };
  if (!expected) {
    const steps = Object.keys(recorded.sha256).join(" and ");
    return { is: "another run", message: `it has ${run.steps} steps, and ${steps} are recorded` };
  }
  const agents = [...new Set([...Object.keys(expected), ...Object.keys(run.agents)])];
  const differing = agents.flatMap((agent) => {
    const [before, now] = [expected[agent] ?? "no weights", run.agents[agent]?.sha256 ?? "no weights"];
    return before === now ? [] : [`${agent}: ${now}, recorded: ${before}`];
  });
  if (differing.length === 0) return { is: "same", message: `the weights after ${run.steps} steps are those recorded` };
  const message = [`different weights after ${run.steps} steps`, ...differing].join("\n  ");
  if (machine === recorded.machine) return { is: "changed", message };
  const machines = `this is ${machine}, and they are recorded on ${recorded.machine}: it may round differently`;
  return { is: "another machine", message: `${message}\n  ${machines}` };
}

/** Vector instructions that the runtime's kernels use, by their names in Linux. */
const VECTOR = /^(avx\w*|fma|f16c|amx_\w+|asimd\w*|sve\w*|i8mm|bf16)$/;

export function thisMachine(): string {
  const [{ model = "unknown processor" } = {}] = cpus();
  const [, flags = ""] = process.platform === "linux" ? (/^(?:flags|Features)\s*:(.*)$/m.exec(cpuInfo()) ?? []) : [];
  const vector = flags.split(" ").filter((flag) => VECTOR.test(flag));
  const [major] = process.versions.node.split(".");
  return [`${process.platform} ${process.arch}`, model.trim(), vector.sort().join(" "), `Node.js ${major}`].join(", ");
}

const cpuInfo = () => readFileSync("/proc/cpuinfo", "utf8");
