/** @file Installs onnxruntime's optional CUDA provider in the matching version, with the runtime's own script. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { MgrpoError } from "../../core/errors.ts";
import { checkPlatform } from "../../engine/compiled/cuda.ts";

/** Downloads several hundred MB from NuGet to the folder of the runtime's library. Safe to repeat. */
export async function installCuda(): Promise<void> {
  checkPlatform();
  const script = join(
    dirname(createRequire(import.meta.url).resolve("onnxruntime-node/package.json")),
    "script/install.js",
  );
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, ONNXRUNTIME_NODE_INSTALL: "cuda12" },
    stdio: ["ignore", "inherit", "pipe"],
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  if (code === 0) return;
  const end = signal ? `was killed by ${signal}` : `ended with exit code ${code}`;
  throw installFailure(errors, end);
}

/** Errors of the script when it cannot write to its temporary folder, or to the runtime's folder. */
const UNWRITABLE = /^(EACCES|EPERM|EROFS|ENOSPC|EDQUOT):/;

/** @param errors what the script wrote to standard error. @param end how its process ended. */
export function installFailure(errors: string, end: string): MgrpoError {
  const reason = /Error: (.*)/.exec(errors)?.[1] ?? `its script ${end}`;
  const remedy = UNWRITABLE.test(reason)
    ? "let this user write there, on a disk with room, and run this again"
    : "it comes from api.nuget.org; let this machine reach it and run this again";
  return new MgrpoError("engine-unsupported", `the CUDA provider was not installed (${reason}): ${remedy}`, {
    evidence: errors,
  });
}
