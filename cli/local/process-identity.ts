/**
 * @file Whether the process that wrote a file still runs. Ids are reused: after a reboot, after the restart of a container, and on another
 * machine, another process may have the same one. On Linux a process is also known by its boot and its start.
 */
import { readFileSync } from "node:fs";
import { hasProcess } from "../../engine/checkpoint/leftovers.ts";

/** Fields of /proc/<pid>/stat from the state, which follows the name, to the start, in ticks since boot. */
const START_FIELD = 19;

/** The boot and the start of the process; empty where they cannot be read, as on other systems than Linux. */
export function startOfProcess(pid: number): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // `pid (name) state …`, and a name may contain anything.
    return `${boot} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_FIELD]}`;
  } catch {
    return "";
  }
}

/** Whether it is another process than this one, and runs. `start`: its `startOfProcess`; empty: only its id is known. */
export function isOtherProcess(pid: number, start: string): boolean {
  if (pid === 0 || pid === process.pid || !hasProcess(pid)) return false;
  return start === "" || startOfProcess(pid) === start;
}
