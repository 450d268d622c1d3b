/** @file Runs the commands of `npm run gpu`, and says why one failed. */
import { spawnSync } from "node:child_process";

/** Time limit of each command. */
const LIMIT_MINUTES = 5;

export interface CommandResult {
  /** The exit code; null if there is none. */
  readonly status: number | null;
  /** Why there is no exit code; undefined if there is one. */
  readonly noExitReason: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that takes too long gets SIGKILL. On SIGTERM, a run would first drain its workers, and one that hangs would never end. */
export function runCommand(program: string, args: readonly string[], minutes = LIMIT_MINUTES): CommandResult {
  const { status, signal, error, stdout, stderr } = spawnSync(program, args, {
    encoding: "utf8",
    timeout: minutes * 60_000,
    killSignal: "SIGKILL",
    maxBuffer: 1 << 28,
  });
  const isTimedOut = (error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT";
  const reason = isTimedOut ? `killed after ${minutes} minutes` : (error?.message ?? `killed by ${signal}`);
  const noExitReason = status === null ? reason : undefined;
  // Both outputs are null if the program could not be started.
  return { status, noExitReason, stdout: stdout ?? "", stderr: stderr ?? "" };
}

/** Why a command failed: the reason that it has no exit code; if it has one, the last line of its stderr or, if that is empty, the exit code. */
export function failureOf({ status, noExitReason, stderr }: Omit<CommandResult, "stdout">): string {
  return noExitReason ?? (stderr.trim().split("\n").at(-1) || `exit code ${status}`);
}
