/** @file Without onnxruntime-node, which npm may leave out, the compiled engine says how to install it; the eager engine works. */
import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const moduleOf = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;

const WITHOUT_RUNTIME = moduleOf(`
  import { register } from "node:module";
  register(${JSON.stringify(
    moduleOf(`
  export async function resolve(name, context, next) {
    if (name !== "onnxruntime-node") return next(name, context);
    throw Object.assign(new Error("Cannot find package 'onnxruntime-node'"), { code: "ERR_MODULE_NOT_FOUND" });
  }`),
  )});`);

const PROGRAM = `
  import { openSampler, openTrainer } from "./engine/index.ts";
  import { tinyCheckpoint } from "./test/engine/tiny.ts";
  const outcomes = [];
  for (const policy of ["compiled", "eager"])
    for (const open of [openSampler, openTrainer])
      outcomes.push(await open(tinyCheckpoint(), { policy }).then(() => "open", ({ code, message }) => code + " " + message));
  console.log(JSON.stringify(outcomes));`;

test("without the runtime, opening the compiled engine is refused with the command that installs it", async () => {
  const node = ["--import", "tsx", "--import", WITHOUT_RUNTIME, "--input-type=module", "--eval", PROGRAM];
  const { stdout } = await promisify(execFile)(process.execPath, node, { cwd: ROOT });
  const refusal = expect.stringMatching(/^engine-unsupported onnxruntime-node is not installed: .*: npm install --/);
  expect(JSON.parse(stdout)).toEqual([refusal, refusal, "open", "open"]);
});
