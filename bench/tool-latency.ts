/**
 * @file Tools that take as long as those of real agents: seconds, with a long tail. The wait before a call is lognormal. Its draw is
 * keyed by the question and by how many calls about that question the worker has made before: the waits of a worker are independent, and runs
 * that ask the same questions get the same draws.
 */
import { setTimeout as pause } from "node:timers/promises";
import { MgrpoError } from "../core/errors.ts";
import type { Tool } from "../core/ports.ts";
import { stream } from "../core/random.ts";

export interface ToolLatency {
  readonly medianSeconds: number;
  /** Standard deviation of the logarithm. At 1, the mean is 1.65 medians, and one call in a hundred takes more than ten medians. */
  readonly sigma: number;
}

export function withLatency(tools: ReadonlyMap<string, Tool>, latency: ToolLatency): ReadonlyMap<string, Tool> {
  const calls = new Map<string, number>();
  return new Map([...tools].map(([name, tool]) => [name, delayed(tool, latency, calls)]));
}

/** @param calls calls so far, by question. */
function delayed(tool: Tool, latency: ToolLatency, calls: Map<string, number>): Tool {
  return {
    ...tool,
    async run(args, context) {
      const { id } = context.question;
      const call = calls.get(id) ?? 0;
      calls.set(id, call + 1);
      const seconds = latencyOf(latency, id, call);
      await pause(1000 * seconds, undefined, { signal: context.signal }).catch((cause: unknown) => {
        throw new MgrpoError("canceled", `the call to ${tool.name} was canceled`, { cause });
      });
      return tool.run(args, context);
    },
  };
}

/** Seconds, from two uniform draws by the Box-Muller transform. */
function latencyOf({ medianSeconds, sigma }: ToolLatency, question: string, call: number): number {
  const random = stream("tool latency", question, call);
  const normal = Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());
  return medianSeconds * Math.exp(sigma * normal);
}
