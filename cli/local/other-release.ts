/** @file Whether another release trained a run. Its defaults and prompts may be others, so what comes next may not be what that release would do. */
import { release } from "../../gpu-workers/release.ts";
import type { RunStatus } from "./run-folder.ts";

/** Undefined: this release trained it, or it is not recorded which one did. */
export function otherRelease({ release: trained }: RunStatus): string | undefined {
  const current = release(process.env);
  if (trained === "" || trained === current) return undefined;
  return `release ${trained} trained it, and this is ${current}`;
}
