/** @file Makes a Python virtual environment with packages from PyPI, for checks that are not part of CI. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

/**
 * Returns the environment's `bin` folder, under `folder`. If the environment cannot be made, throws an error that says
 * what the check needs.
 * `size`: of the environment, as that error shows it, such as "60 MB".
 */
export function makePython(folder: string, packages: readonly string[], size: string): string {
  const bin = join(folder, "python", "bin");
  try {
    execFileSync("python3", ["-m", "venv", join(folder, "python")], { stdio: ["ignore", "ignore", "pipe"] });
    execFileSync(join(bin, "pip"), ["install", "-q", ...packages], { stdio: ["ignore", "ignore", "pipe"] });
  } catch (cause) {
    const needs = `the check needs Python 3.10 or later with venv as \`python3\`, and a package index that pip reaches, for ${packages.join(", ")} (about ${size}, deleted afterward)`;
    const [last] = String((cause as Error).message)
      .trim()
      .split("\n")
      .slice(-1);
    throw new Error(`${needs}: ${last}`, { cause });
  }
  return bin;
}
