/**
 * @file Document readers in /proc: the ids of a process's readers, whether one is running, its CPU time, and the peak of their total memory.
 * Without /proc, no process is found.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Ids of the children of `parent` that run a document reader. */
export function childrenOf(parent: number): number[] {
  const ids = (existsSync("/proc") ? readdirSync("/proc") : []).filter((name) => /^\d+$/.test(name));
  return ids.map(Number).filter((id) => statusOf(id, "PPid") === parent && commandOf(id).includes("reader-child"));
}

/** False for a process in state Z: it has exited, but its parent has not collected it. */
export const isRunning = (id: number): boolean => !["", "Z"].includes(read(`/proc/${id}/stat`).split(" ")[2] ?? "");

/** CPU time of all threads of a process, in seconds. Linux counts it in hundredths. 0 if there is no such process. */
export function cpuSeconds(id: number): number {
  const fields = read(`/proc/${id}/stat`).split(" ");
  return (Number(fields[13] ?? 0) + Number(fields[14] ?? 0)) / 100;
}

/** Peak of the total resident memory, in bytes, of this process's readers while `work` runs. It is sampled every 10 ms. */
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

/** Empty if there is no such process. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
