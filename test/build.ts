/** @file Builds what tests start in processes and threads of their own, once, before any of them. */
import { execFileSync } from "node:child_process";

export function setup(): void {
  execFileSync(process.execPath, ["build.mjs", "--fixtures"], { stdio: "inherit" });
}
