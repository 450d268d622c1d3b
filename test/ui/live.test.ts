/** @file A run while it trains: its page, which is loaded once, shows new steps, and then how the run ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect } from "vitest";
import { projectOfFile, trainRelay } from "../cli/command-line.ts";
import { inBrowser, openDashboard } from "./browser.ts";

const COMMAND = resolve(import.meta.dirname, "../../dist/cli/mgrpo.js");
/** Far more than the run can finish during the test. */
const STEPS = 1000;
/** How many new steps the page must show, one after another. */
const WATCHED = 6;
/** The longest wait until the page shows a new line of steps.jsonl; on an idle machine it takes half a second. */
const MAX_SECONDS = 40;

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

inBrowser("the page shows new steps while the run trains, and then that the run has stopped", async () => {
  const args = trainRelay("live", "--steps", String(STEPS));
  training = spawn(process.execPath, [COMMAND, ...args], { cwd: folder, stdio: "ignore" });
  const ended = once(training, "exit");
  await linesBeyond(0);
  const page = await open("/runs/live");
  await page.getByRole("status").getByText("running").waitFor();
  await page.getByRole("cell", { name: "alive" }).first().waitFor();
  const isShown = (n: number) => {
    const shown = [...document.querySelectorAll("dd")].map((one) => /^(\d+) of/.exec(one.innerText)?.[1]);
    return shown.some((count) => Number(count) >= n);
  };
  for (let known = lines(), i = 0; i < WATCHED; i++) {
    known = await linesBeyond(known);
    await page.waitForFunction(isShown, known, { timeout: 1000 * MAX_SECONDS });
  }
  expect(lines()).toBeLessThan(STEPS);

  const steps = () => page.getByText(`${lines()} of ${STEPS}`).count();
  training.kill("SIGINT");
  await ended;
  await page.getByRole("status").getByText("stopped").waitFor();
  await expect.poll(steps).toBe(1);
  expect(await page.getByRole("cell", { name: "alive" }).count()).toBe(0);
});
