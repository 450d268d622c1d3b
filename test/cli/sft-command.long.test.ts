/**
 * @file `mgrpo sft` as a command: one process per agent and folder, one model per shared policy, a refused folder, a warning if the held-out loss
 * never falls, and a hub model that stays at its commit.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test, vi } from "vitest";
import { lockDirectory } from "../../adapters/local-cloud/lock.ts";
import { buildProgram } from "../../cli/program.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { COMMIT, startHub, TOKEN } from "../fakes/hub-server.ts";
import { projectOfFile } from "./command-line.ts";

const folder = projectOfFile();
const demonstrations = join(folder, "demonstrations.jsonl");
const conversations = Array.from({ length: 12 }, (_, i) => [
  { role: "user", content: `What follows ${i}?` },
  { role: "assistant", content: String(i + 1) },
]);
writeFileSync(demonstrations, conversations.map((messages) => JSON.stringify({ messages })).join("\n"));

/** What the command prints on stderr. */
async function sft(to: string, ...more: string[]): Promise<string> {
  const written: string[] = [];
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  const agent = ["--agent", "searcher", "--set", "agents.searcher.policy=eager", "--held-out", "0.3"];
  try {
    const command = ["sft", "atlas", "--to", to, ...agent, "--demonstrations", demonstrations, ...more];
    await buildProgram().parseAsync(command, { from: "user" });
    return written.join("");
  } finally {
    write.mockRestore();
  }
}

test("an agent that another command trains in the same folder is refused; another agent is not", async () => {
  const to = join(folder, "shared");
  const state = join(to, ".sft", "searcher");
  const release = await lockDirectory(state);
  await expect(sft(to, "--tokens", "1")).rejects.toThrow(
    `${state} is in use by a process (pid ${process.pid}): wait for it or stop it, or give another --to`,
  );
  await release();
  const releaseMain = await lockDirectory(join(to, ".sft", "main"));
  expect(await sft(to, "--tokens", "1")).toMatch(/searcher: trained 1 step\b/);
  expect(await sft(to, "--tokens", "1")).toContain("searcher: already trained");
  await releaseMain();
});

test("agents that share a policy are trained as one model, on the demonstrations of both, under the owner's name", async () => {
  const to = join(folder, "one-policy");
  const file = join(folder, "both.jsonl");
  const linesOf = (agent: string, count: number) =>
    conversations.slice(0, count).map((messages) => JSON.stringify({ agent, messages }));
  writeFileSync(file, [...linesOf("main", 3), ...linesOf("searcher", 7)].join("\n"));
  const model = resolve(import.meta.dirname, "../../recipes/atlas/models/searcher");
  const both = ["main", "searcher"].flatMap((agent) => ["--set", `agents.${agent}.model=${model}`]);
  const settings = ["--arm", "shared-policy", ...both, "--set", "agents.main.policy=eager", "--held-out", "0"];
  const command = (...more: string[]) =>
    buildProgram().parseAsync(["sft", "atlas", "--to", to, "--demonstrations", file, ...settings, ...more], {
      from: "user",
    });
  await expect(command("--agent", "searcher")).rejects.toThrow(
    "--agent searcher: it has the policy of 'main', which is trained on the demonstrations of all agents that share it: give --agent main",
  );
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  // One demonstration a step.
  await command("--epochs", "1", "--batch-tokens", "1");
  write.mockRestore();
  expect(readdirSync(to).sort()).toEqual([".sft", "main", "main-loss.svg"]);
  expect(JSON.parse(readFileSync(join(to, "main", "training.json"), "utf8"))).toMatchObject({ steps: 10 });
});

test("if the second agent's folder is refused, it is refused before the first agent is trained", async () => {
  const to = join(folder, "taken");
  mkdirSync(join(to, "searcher"), { recursive: true });
  const file = join(folder, "taken.jsonl");
  const lines = ["main", "searcher"].map((agent) => JSON.stringify({ agent, messages: conversations[0] }));
  writeFileSync(file, lines.join("\n"));
  const eager = ["main", "searcher"].flatMap((agent) => ["--set", `agents.${agent}.policy=eager`]);
  const command = ["sft", "atlas", "--to", to, "--demonstrations", file, "--tokens", "1", "--held-out", "0", ...eager];
  await expect(buildProgram().parseAsync(command, { from: "user" })).rejects.toThrow(
    `${join(to, "searcher")} exists: give another --to, or delete that folder`,
  );
  expect(readdirSync(to).sort()).toEqual([".sft", "searcher"]);
});

test.each([
  ["eager-gpu", ["policy=eager-gpu"], /'eager-gpu' needs @tensorflow\/tfjs-node-gpu, which is not installed/],
  [
    "quantization",
    ["engine.quantization=int8"],
    /^agents\.searcher\.model: engine\.quantization int8: only the base of an adapter/,
  ],
  ["cuda", ["engine.provider=cuda"], /engine\.provider cuda: /],
])(
  "if the second agent's engine is refused, it is refused before the first agent is trained: %s",
  async (name, set, fault) => {
    const to = join(folder, name);
    const settings = set.flatMap((one) => ["--set", `agents.searcher.${one}`]);
    const command = ["sft", "atlas", "--to", to, "--tokens", "1", "--set", "agents.main.policy=eager", ...settings];
    await expect(buildProgram().parseAsync(command, { from: "user" })).rejects.toThrow(fault);
    expect(existsSync(to)).toBe(false);
  },
);

test("if the held-out loss never falls, one line says so, and training.json has the warning too", async () => {
  const to = join(folder, "diverged");
  const output = await sft(to, "--batch-tokens", "1", "--tokens", "200", "--learning-rate", "1");
  const record = JSON.parse(readFileSync(join(to, "searcher", "training.json"), "utf8"));
  expect(record.warning).toMatch(/^the held-out loss never fell below its first value, \d/);
  expect(record.firstHeldOutLoss).toBeLessThan(record.heldOutLoss);
  expect(output.split("\n").filter((line) => line.startsWith("warning: "))).toEqual([
    `warning: searcher: ${record.warning}`,
  ]);
});

test("a hub model without a revision keeps the commit that its training started from, wherever its branch moves", async () => {
  const model = resolve(import.meta.dirname, "../../recipes/atlas/models/searcher");
  const read = (name: string) => Uint8Array.from(readFileSync(join(model, name)));
  const hub = await startHub("owner/tiny", new Map(readdirSync(model).map((name) => [name, read(name)])));
  const variables = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: join(folder, "hub"), HF_TOKEN: TOKEN, HF_HUB_OFFLINE: "0" };
  const restore = setEnvironment(variables);
  const settings = ["agents.searcher.model=hf:owner/tiny", "agents.searcher.lora={}"].flatMap((one) => ["--set", one]);
  try {
    const to = join(folder, "moved");
    expect(await sft(to, "--tokens", "1", ...settings)).toMatch(/searcher: trained 1 step\b/);
    const pointer = JSON.parse(readFileSync(join(to, "searcher", "base.json"), "utf8"));
    expect(pointer).toMatchObject({ path: `hf:owner/tiny@${COMMIT}`, files: { "model.safetensors": {} } });
    hub.refs.set("main", "f".repeat(40));
    expect(await sft(to, "--tokens", "1", ...settings)).toContain("searcher: already trained");
  } finally {
    restore();
    await hub.close();
  }
});
