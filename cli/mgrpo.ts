#!/usr/bin/env node
/** @file The executable `mgrpo`. A failure prints one line per error, which says what went wrong, where, and what to do, and exits non-zero. */
import { setMaxListeners } from "node:events";
import { homedir } from "node:os";
import { buildProgram } from "./program.ts";
import { fail } from "./terminal/fail.ts";
import { handleOutputError } from "./terminal/output-error.ts";

// The AWS SDK is pinned, so its warning that later releases need a newer Node.js is of no use to the user.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
for (const stream of [process.stdout, process.stderr]) stream.on("error", (error) => handleOutputError(stream, error));
// Each rollout and request in flight listens to the AbortSignal that cancels it. Node.js 20 warns of a leak from eleven listeners on.
setMaxListeners(0);
if (!hasHome()) process.env["HOME"] = "/";
await buildProgram().parseAsync().catch(fail);

/** False if HOME is not set and the system does not know the user. Container runtimes then set HOME to /. The AWS SDK needs a home directory. */
function hasHome(): boolean {
  try {
    homedir();
    return true;
  } catch {
    return false;
  }
}
