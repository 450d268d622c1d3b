/** @file `mgrpo sft` as a command: one process per agent and folder, and a warning if the held-out loss never falls. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { lockDirectory } from "../../adapters/local-cloud/lock.ts";
import { buildProgram } from "../../cli/program.ts";
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
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => written.push(String(text)) > 0);
  const agent = ["--agent", "searcher", "--set", "agents.searcher.policy=eager", "--held-out", "0.3"];
  try {
    const command = ["sft", "atlas", "--to", to, ...agent, "--demonstrations", demonstrations, ...more];
    await buildProgram().parseAsync(command, { from: "user" });
    return written.join("");
  } finally {
    write.mockRestore();
  }
}

test("a folder and agent that another command trains are refused; another agent is not", {
  timeout: 60_000,
}, async () => {
  const to = join(folder, "shared");
  const state = join(to, ".sft", "searcher");
  const release = await lockDirectory(state);
  await expect(sft(to, "--tokens", "1")).rejects.toThrow(
    `${state} is in use by a process (pid ${process.pid}): wait for it or stop it, or give another --to`,
  );
  await release();
  const releaseMain = await lockDirectory(join(to, ".sft", "main"));
  expect(await sft(to, "--tokens", "1")).toContain("searcher: trained 1 steps");
  expect(await sft(to, "--tokens", "1")).toContain("searcher: already trained");
  await releaseMain();
});

test("a held-out loss that never falls: one line at the end, and in training.json", { timeout: 60_000 }, async () => {
  const to = join(folder, "diverged");
  const output = await sft(to, "--batch-tokens", "1", "--tokens", "200", "--learning-rate", "1");
  const record = JSON.parse(readFileSync(join(to, "searcher", "training.json"), "utf8"));
  expect(record.warning).toMatch(/^the held-out loss never fell below its first value, \d/);
  expect(record.firstHeldOutLoss).toBeLessThan(record.heldOutLoss);
  expect(output.split("\n").filter((line) => line.startsWith("warning: "))).toEqual([
    `warning: searcher: ${record.warning}`,
  ]);
});
