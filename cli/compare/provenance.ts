/** @file The source version and machine that trained a comparison's run, as its record states them. */
import { execFileSync } from "node:child_process";
import { cpus, totalmem } from "node:os";
import * as z from "zod";

export const Provenance = z.strictObject({ commit: z.string(), machine: z.string() });
export type Provenance = z.infer<typeof Provenance>;

export function currentProvenance(): Provenance {
  const [{ model = "unknown processor" } = {}] = cpus();
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return {
    commit: sourceVersion(),
    machine: `${cpus().length} x ${model.trim()}, ${gigabytes} GiB, Node.js ${process.version}, ${process.platform}`,
  };
}

/** The commit, marked if files differ from it. An installed package has no commit. */
function sourceVersion(): string {
  try {
    return execFileSync("git", ["describe", "--always", "--dirty", "--abbrev=12"], {
      cwd: import.meta.dirname,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return "none: an installed package";
  }
}
