/**
 * @file Whether the process that wrote a file still runs. Ids are reused: after a reboot, after the restart of a container, and on another
 * machine, another process may have the same one. On Linux a process is also identified by the boot id and its start time.
 */
import { readFileSync } from "node:fs";
import { hasProcess } from "../../engine/checkpoint/leftovers.ts";

/** Index of the start time (ticks since boot) among the fields of /proc/<pid>/stat that follow the name. */
const START_FIELD = 19;

/** The boot id and the start time of the process; empty where they cannot be read, as on systems other than Linux. */
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

/** Whether a process other than this one runs with that id. `start`: its `startOfProcess`; empty: only its id is known. */
export function isOtherProcess(pid: number, start: string): boolean {
  if (pid === 0 || pid === process.pid || !hasProcess(pid)) return false;
  return start === "" || startOfProcess(pid) === start;
}
