/** @file Runs the commands of `npm run gpu`, and says why one failed. */
import { spawnSync } from "node:child_process";

/** Time limit of each command. */
const MINUTES = 5;

export interface CommandResult {
  /** The exit code; null if there is none. */
  readonly status: number | null;
  /** Why there is no exit code; undefined if there is one. */
  readonly killed: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that takes too long gets SIGKILL. On SIGTERM, a run would first drain its workers, and one that hangs would never end. */
export function runCommand(program: string, args: readonly string[], minutes = MINUTES): CommandResult {
  const { status, signal, error, stdout, stderr } = spawnSync(program, args, {
    encoding: "utf8",
    timeout: minutes * 60_000,
    killSignal: "SIGKILL",
    maxBuffer: 1 << 28,
  });
  const isLate = (error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT";
  const reason = isLate ? `killed after ${minutes} minutes` : (error?.message ?? `killed by ${signal}`);
  // Both outputs are null if the program could not be started.
  return { status, killed: status === null ? reason : undefined, stdout: stdout ?? "", stderr: stderr ?? "" };
}

/** Why a command failed: what killed it, the last line of its stderr or, if that is empty, its exit code. */
export function failureOf({ status, killed, stderr }: Omit<CommandResult, "stdout">): string {
  return killed ?? (stderr.trim().split("\n").at(-1) || `exit code ${status}`);
}
