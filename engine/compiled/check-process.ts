/**
 * @file Checks a provider in a process of its own (check-child.ts). A driver that hangs blocks its thread in native code, which only the end of
 * the process stops; one that crashes ends the process.
 */
import { fork } from "node:child_process";
import { builtModule } from "../../built-module.ts";
import type { ExecutionProvider, Precision } from "../../core/contracts/engine.ts";

export interface CheckRequest {
  readonly provider: ExecutionProvider;
  readonly precision: Precision;
}

/** `refusal`: the message of the error that ended the check, for example why the provider does not start. */
export type CheckReply = { readonly deviation: number } | { readonly refusal: string };

/** `end`: how the check ended without a reply. */
type CheckOutcome = CheckReply | { readonly end: string };

/** Starting a GPU and compiling its kernels may take half a minute. */
const CHECK_SECONDS = 120;

export function checkInProcess(request: CheckRequest): Promise<CheckOutcome> {
  const child = fork(builtModule("engine/compiled/check-child"), {
    execArgv: [],
    // Unlike JSON, this serialization preserves Infinity, which a reply may contain.
    serialization: "advanced",
    // The runtime names missing libraries on standard error.
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  let timer: NodeJS.Timeout | undefined;
  const outcome = new Promise<CheckOutcome>((resolve, reject) => {
    timer = setTimeout(() => resolve({ end: `did not end within ${CHECK_SECONDS} s` }), CHECK_SECONDS * 1000);
    child.once("message", (reply) => resolve(reply as CheckReply));
    child.once("exit", (code, signal) => resolve({ end: `crashed (${signal ?? `exit code ${code}`})` }));
    child.once("error", reject);
    // If the process ends first, `exit` reports it.
    child.send(request, () => {});
  });
  return outcome.finally(() => {
    clearTimeout(timer);
    child.kill("SIGKILL");
    // A process blocked in a kernel driver does not end even then. It must not keep this one alive.
    child.unref();
    child.channel?.unref();
  });
}
