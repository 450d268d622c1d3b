/**
 * @file Loaded by every process and thread of the run that a soak with `--collect` starts, except those with an empty environment: watchdog
 * threads, and processes that read documents. Collects all garbage twice a minute, so that memory grows only with what is in use.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const PERIOD_MS = 30_000;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
setInterval(() => collect(), PERIOD_MS).unref();
