/**
 * @file `process.exit` in a user's code, such as an app whose main module ends its process: here it would end everything that the process does,
 * without a message. It throws an error instead. The code of this program itself may still end the process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { fileURLToPath } from "node:url";
import { framesOf } from "../core/stack-frames.ts";

/** What the user's code that is running should do instead. Undefined: none is running. */
const remedies = new AsyncLocalStorage<string>();

/** Calls a user's code, in which, and in whatever it starts, `process.exit` throws. @param remedy what to do instead. */
export function withoutExit<T>(remedy: string, code: () => T): T {
  if (process.exit !== guardedExit) {
    exit = process.exit.bind(process);
    process.exit = guardedExit;
  }
  return remedies.run(remedy, code);
}

let exit: (code?: number | string | null) => never;

function guardedExit(code?: number | string | null): never {
  const remedy = remedies.getStore();
  if (remedy === undefined) return exit(code);
  const [, caller = "an unknown place"] = framesOf(new Error(), fileURLToPath);
  throw new Error(`process.exit(${code ?? ""}) was called at ${caller}: ${remedy}`);
}
