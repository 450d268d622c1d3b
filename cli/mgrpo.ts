#!/usr/bin/env node
/** @file The executable `mgrpo`. A failure prints one line per error, which says what, where and what to do, and exits non-zero. */
import { setMaxListeners } from "node:events";
import { buildProgram } from "./program.ts";
import { fail } from "./terminal/fail.ts";

// The SDK is pinned, so its warnings about later releases are of no use to the user.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
// The reader of the output may end first: `| head`, Ctrl-C at `| tee` (EPIPE), a closed terminal that this program outlives, after `disown`
// for example (EIO). A run still drains its workers and saves its state.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    const isReaderGone = error.code === "EPIPE" || (error.code === "EIO" && stream.isTTY);
    if (!isReaderGone) throw error;
  });
}
// All rollouts and requests in flight follow the signal that ends them. Node.js 20 warns of a leak at eleven listeners.
setMaxListeners(0);
await buildProgram().parseAsync().catch(fail);
