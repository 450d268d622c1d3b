#!/usr/bin/env node
/** @file The command line `mgrpo`. What goes wrong ends as one line that says what, where and what to do, and a non-zero exit. */
import { createProgram } from "./program.ts";
import { fail } from "./terminal/fail.ts";

// The SDK is pinned: what its later releases will need is no news to the user of this one.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
await createProgram().parseAsync().catch(fail);
