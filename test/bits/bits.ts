/**
 * @file The bits of the default run: what results/bits.json records, and how a run's weights compare with it. The same config gives the
 * same bits on the same kind of machine. Another processor may round differently, since the runtime chooses its kernels by the vector
 * instructions that it finds, and so may another V8; there, different bits are not a fault.
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
  /**
   * By what computed them (`thisMachine`): steps of the run -> agent -> SHA-256 of its final weights. A short run is not the start of a
   * longer one: each decays its learning rate over its own number of steps.
   */
  machines: z.record(z.string(), z.record(z.string().regex(/^\d+$/), z.record(AgentName, Sha256))),
});
export type Bits = z.infer<typeof Bits>;

export interface Verdict {
  readonly is: "same" | "changed" | "another machine" | "another run";
  readonly message: string;
}

type ComparedRun = Pick<RunReport, "recipe" | "arm" | "seed" | "steps" | "agents">;

export function compareBits(recorded: Bits, run: ComparedRun, machine: string): Verdict {
  const other = (["recipe", "arm", "seed"] as const).find((key) => run[key] !== recorded[key]);
  if (other) return { is: "another run", message: `its ${other} is ${run[other]}, and ${recorded[other]} is recorded` };
  const known = Object.entries(recorded.machines).flatMap(([name, bySteps]) => {
    const expected = bySteps[run.steps];
    return expected ? [{ name, differing: differingAgents(expected, run) }] : [];
  });
  if (known.length === 0) return { is: "another run", message: `it has ${run.steps} steps, which are not recorded` };
  const message = `different weights after ${run.steps} steps`;
  const own = known.find(({ name }) => name === machine);
  const same = own ? own.differing.length === 0 : known.some(({ differing }) => differing.length === 0);
  if (same) return { is: "same", message: `the weights after ${run.steps} steps are those recorded` };
  if (own) return { is: "changed", message: [message, ...own.differing].join("\n  ") };
  const machines = `this is ${machine}, which may round differently; recorded:`;
  return { is: "another machine", message: [message, machines, ...known.map(({ name }) => name)].join("\n  ") };
}

function differingAgents(expected: Readonly<Record<string, string>>, { agents }: ComparedRun): string[] {
  return [...new Set([...Object.keys(expected), ...Object.keys(agents)])].flatMap((agent) => {
    const [before, now] = [expected[agent] ?? "no weights", agents[agent]?.sha256 ?? "no weights"];
    return before === now ? [] : [`${agent}: ${now}, recorded: ${before}`];
  });
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
