/** @file A run while it trains: its page shows a step within two seconds of its line in steps.jsonl, and then how it ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect } from "vitest";
import { projectOfFile, trainRelay } from "../cli/command-line.ts";
import { inBrowser, openDashboard } from "./browser.ts";

const COMMAND = resolve(import.meta.dirname, "../../dist/cli/mgrpo.js");
const STEPS = 40;
/** Steps whose delay is measured. */
const WATCHED = 6;
const MOST_SECONDS = 2;

const folder = projectOfFile();
const { open } = openDashboard(() => folder);
const file = join(folder, "runs/live/steps.jsonl");
const lines = () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").length - 1 : 0);
let training: ChildProcess | undefined;
afterAll(() => training?.kill("SIGKILL"));
const linesBeyond = async (known: number) => {
  while (lines() <= known) await sleep(20);
  return lines();
};

inBrowser("a step is on the page within two seconds", async () => {
  const args = trainRelay("live", "--steps", String(STEPS));
  training = spawn(process.execPath, [COMMAND, ...args], { cwd: folder, stdio: "ignore" });
  const ended = once(training, "exit");
  await linesBeyond(0);
  const page = await open("/runs/live");
  await page.getByRole("status").getByText("running").waitFor();
  await page.getByRole("cell", { name: "alive" }).first().waitFor();
  const delays: number[] = [];
  for (let known = lines(), i = 0; i < WATCHED; i++) {
    known = await linesBeyond(known);
    const since = performance.now();
    await page.waitForFunction((n) => {
      const shown = [...document.querySelectorAll("dd")].map((one) => /^(\d+) of/.exec(one.innerText)?.[1]);
      return shown.some((count) => Number(count) >= n);
    }, known);
    delays.push((performance.now() - since) / 1000);
  }
  expect(Math.max(...delays), delays.map((one) => one.toFixed(2)).join(", ")).toBeLessThan(MOST_SECONDS);
  expect(lines()).toBeLessThan(STEPS);

  const steps = () => page.getByText(`${lines()} of ${STEPS}`).count();
  training.kill("SIGINT");
  await ended;
  await page.getByRole("status").getByText("stopped").waitFor();
  await expect.poll(steps).toBe(1);
  expect(await page.getByRole("cell", { name: "alive" }).count()).toBe(0);
});
