/** @file Builds, once before all tests, what they start in separate processes and threads. */
import { execFileSync } from "node:child_process";

export function setup(): void {
  execFileSync(process.execPath, ["build.mjs", "--fixtures"], { stdio: "inherit" });
}
