/** @file Processes by the kernel's records: the children of a process, and the memory of all of them together. Empty where there is no /proc. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Process ids that are children of `parent` and run a reader. */
export function childrenOf(parent: number): number[] {
  const ids = (existsSync("/proc") ? readdirSync("/proc") : []).filter((name) => /^\d+$/.test(name));
  return ids.map(Number).filter((id) => statusOf(id, "PPid") === parent && commandOf(id).includes("reader-child"));
}

export const isRunning = (id: number): boolean => !["", "Z"].includes(read(`/proc/${id}/stat`).split(" ")[2] ?? "");

/** The most resident memory, in bytes, that the readers of this process took together while `work` ran. */
export async function peakMemory(work: () => Promise<unknown>): Promise<number> {
  let peak = 0;
  const measure = () => {
    const kilobytes = childrenOf(process.pid).map((id) => statusOf(id, "VmRSS"));
    peak = Math.max(peak, 1024 * kilobytes.reduce((sum, size) => sum + size, 0));
  };
  const timer = setInterval(measure, 10);
  await work().finally(() => clearInterval(timer));
  return peak;
}

const statusOf = (id: number, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(read(`/proc/${id}/status`))?.[1] ?? 0);

const commandOf = (id: number): string => read(`/proc/${id}/cmdline`);

/** Empty if the process is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
