/**
 * @file `process.exit` in an app or a tool, or in a module of a recipe while it is imported: here it would end everything that the process does,
 * without a message. It throws an error instead. The code of this program itself may still end the process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { fileURLToPath } from "node:url";
import { framesOf } from "../core/stack-frames.ts";

/** What the user's code that is running should do instead. Undefined: none is running. */
const remedies = new AsyncLocalStorage<string>();

/** Calls a user's code, in which, and in whatever it starts, `process.exit` throws. @param remedy what to do instead. */
export function withoutExit<T>(remedy: string, code: () => T): T {
  // Only the first one: a later one may be a wrapper of `guardedExit`.
  exit ??= process.exit.bind(process);
  process.exit = guardedExit;
  return remedies.run(remedy, code);
}

let exit: typeof process.exit | undefined;

function guardedExit(code?: number | string | null): never {
  const remedy = remedies.getStore();
  if (remedy === undefined && exit) return exit(code);
  const [, caller = "an unknown place"] = framesOf(new Error(), fileURLToPath);
  const refusal = new Error(`process.exit(${code ?? ""}) was called at ${caller}: ${remedy}`);
  // A reader of its stack finds the user's code first.
  Error.captureStackTrace(refusal, guardedExit);
  throw refusal;
}
