/** @file `process.exit` in a user's module: an error that says where it was called, instead of the silent end of the process. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import type { ToolContext } from "../../core/ports.ts";
import type { RolloutContext, ToolsOpening } from "../../core/recipe.ts";
import { framesOf } from "../../core/stack-frames.ts";
import { withoutExit } from "../../recipes/guarded-exit.ts";
import { openRollout, openTools, openToolsModule } from "../../recipes/registry.ts";

const folder = mkdtempSync(join(tmpdir(), "exit-"));
afterAll(() => rmSync(folder, { recursive: true }));

function recipeWith(rollout: string): string {
  const own = mkdtempSync(join(folder, "app-"));
  writeFileSync(join(own, "rollout.mjs"), rollout);
  return own;
}

test("a module that ends the process when it is imported is refused, with the place", async () => {
  const own = recipeWith('export const rollout = async () => ({ answer: "x" });\nprocess.exit(0);');
  await expect(openRollout(own)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(
      /rollout\.mjs cannot be loaded: process\.exit\(0\) was called at .*rollout\.mjs:2:9: a module that is imported/,
    ),
  });
});

test.each([
  ["at once", "process.exit(1);"],
  ["later", "await new Promise((resolve) => setTimeout(resolve, 1));\n  process.exit(1);"],
])("an app that ends the process %s throws instead", async (_when, body) => {
  const rollout = await openRollout(recipeWith(`export const rollout = async () => {\n  ${body}\n};`));
  await expect(rollout({} as RolloutContext)).rejects.toThrow(
    /^process\.exit\(1\) was called at .*rollout\.mjs:[23]:11: throw an error, or return \{ failed \}/,
  );
});

test.each([
  ["a tool", 'export const tools = new Map([["end", TOOL]]);'],
  [
    "a tool of an opening function",
    'export const tools = async () => ({ tools: new Map([["end", TOOL]]), close: async () => {} });',
  ],
])("%s that ends the process throws instead", async (_what, module) => {
  const own = mkdtempSync(join(folder, "tools-"));
  const tool = '{ name: "end", run: async () => process.exit(3) }';
  writeFileSync(join(own, "tools.mjs"), module.replace("TOOL", tool));
  const opening = { config: { recipe: own, tools: {} }, environment: {} } as unknown as ToolsOpening;
  const { tools } = await openTools(await openToolsModule(own), opening);
  const ended = Promise.resolve(tools.get("end")?.run({} as never, {} as ToolContext));
  const error = await ended.catch((thrown: unknown) => thrown);
  expect(framesOf(error, fileURLToPath)[0]).toMatch(/tools\.mjs:1:\d+$/);
  await expect(ended).rejects.toThrow(
    /^process\.exit\(3\) was called at .*tools\.mjs:1:\d+: throw an error if the tool cannot do its work$/,
  );
});

test("a function that closes tools and ends the process throws instead", async () => {
  const own = mkdtempSync(join(folder, "tools-"));
  const module = "export const tools = async () => ({ tools: new Map(), close: async () => process.exit(5) });";
  writeFileSync(join(own, "tools.mjs"), module);
  const opening = { config: { recipe: own, tools: {} }, environment: {} } as unknown as ToolsOpening;
  const { close } = await openTools(await openToolsModule(own), opening);
  await expect(close()).rejects.toThrow(
    /^process\.exit\(5\) was called at .*tools\.mjs:1:\d+: let close\(\) end only what tools\(\) opened$/,
  );
});

test("a function that opens tools and ends the process is refused, with the place", async () => {
  const own = mkdtempSync(join(folder, "tools-"));
  writeFileSync(join(own, "tools.mjs"), "export const tools = async () => process.exit(4);");
  const opening = { config: { recipe: own, tools: {} }, environment: {} } as unknown as ToolsOpening;
  await expect(openTools(await openToolsModule(own), opening)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/tools\(\) threw Error: process\.exit\(4\) was called at .*tools\.mjs:1:\d+: /),
  });
});

test.each([
  [
    "after an app has run",
    7,
    `await withoutExit("stay", async () => new Promise((resolve) => setTimeout(resolve, 1)));
    process.exit(7);`,
  ],
  [
    "if an app has wrapped it",
    7,
    `withoutExit("stay", () => {
      const { exit } = process;
      process.exit = (code) => exit(code);
    });
    withoutExit("stay", () => {});
    process.exit(7);`,
  ],
  [
    "at the second Ctrl-C, if an app listened first",
    130,
    `setTimeout(() => {}, 60_000);
    withoutExit("stay", () => process.on("SIGINT", () => {}));
    const stopped = new Promise((resolve) => onStopSignal(resolve));
    process.kill(process.pid, "SIGINT");
    await stopped;
    setTimeout(() => process.kill(process.pid, "SIGINT"), 600);`,
  ],
])("outside a user's code, process.exit ends the process: %s", (_when, status, body) => {
  const [guard, signals] = ["recipes/guarded-exit.ts", "gpu-workers/stop-signals.ts"].map((file) =>
    JSON.stringify(join(import.meta.dirname, "../..", file)),
  );
  const script = `import { withoutExit } from ${guard};
    import { onStopSignal } from ${signals};
    withoutExit("stay", () => {});
    ${body}`;
  const run = () =>
    execFileSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], { stdio: "pipe" });
  expect(run).toThrow(expect.objectContaining({ status }));
  expect(withoutExit("stay", () => 1)).toBe(1);
});
