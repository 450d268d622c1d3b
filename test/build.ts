/** @file Builds, once before all tests, what they start in processes and threads of their own. */
import { execFileSync } from "node:child_process";

export function setup(): void {
  execFileSync(process.execPath, ["build.mjs", "--fixtures"], { stdio: "inherit" });
}
