/**
 * @file The numbers on screen are those of the run's files, two rollouts can be shown side by side, and the worst rollout is three clicks
 * away.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, inject } from "vitest";
import type { readSteps } from "../../cli/local/recorded-steps.ts";
import type { RunReport } from "../../cli/run-report.ts";
import { amount, percent } from "../../ui/app/parts/format.ts";
import type { RunView, StepView } from "../../ui/views.ts";
import { drawn, inBrowser, openDashboard, textOf } from "./browser.ts";
import { read } from "./views.ts";

const file = (name: string) => join(inject("project"), "runs/demo", name);

const { open, dashboard } = openDashboard();
const report = (): RunReport => JSON.parse(readFileSync(file("report.json"), "utf8"));
const newest = () => {
  const lines = readFileSync(file("steps.jsonl"), "utf8").trim().split("\n");
  return JSON.parse(lines.at(-1) ?? "") as ReturnType<typeof readSteps>[number];
};
const heldOut = (): string[] => {
  const { before, after } = report().heldOut;
  return [before, after].map((one) => (one ? percent(one.correct / one.n) : expect.fail()));
};
const rewards = () =>
  Object.entries(newest().reward)
    .map(([agent, reward]) => `${agent} ${amount(reward)}`)
    .join(", ");

inBrowser("the list of runs shows steps, held-out accuracy and rewards of the newest step", async () => {
  const page = await open("/");
  const row = page.getByRole("row", { name: "demo" });
  const cells = await row.getByRole("cell").allInnerTexts();
  expect(cells).toEqual(expect.arrayContaining(["demo", "finished", "3/3", ...heldOut(), "$0.00", rewards()]));
  await page.getByRole("searchbox").fill("seed 7");
  await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
});

inBrowser("a run's page shows closed steps, held-out accuracy, and its charts' last values as alt text", async () => {
  const page = await open("/runs/demo");
  const facts = await page.locator(".facts dd").allInnerTexts();
  expect(facts).toEqual(expect.arrayContaining([`${report().perStep.length} of 3`, heldOut().join(" → ")]));
  const after = report().heldOut.after ?? expect.fail();
  const words = `held-out ${Number((after.correct / after.n).toPrecision(3))} at 3`;
  await page.getByRole("img", { name: words }).waitFor();
  for (const [agent, reward] of Object.entries(newest().reward)) {
    const raw = `${agent}, raw ${Number((reward ?? expect.fail()).toPrecision(3))} at 3`;
    await page.getByRole("img", { name: raw }).waitFor();
  }
});

inBrowser("a run's page shows the bytes per rollout of report.json, and a timeline of the newest step", async () => {
  const page = await open("/runs/demo");
  const { bytesPerRollout } = report().store;
  const facts = await page.locator(".facts dd").allInnerTexts();
  expect(facts.join("; ")).toContain(`${amount(Math.round(bytesPerRollout))} bytes per rollout`);
  const row = page.getByRole("img", { name: /^main-.*: sampling .* training .* waiting/ });
  await row.waitFor();
  expect(await row.locator("rect.sampling").count()).toBeGreaterThan(0);
  expect(await row.locator("rect.training").count()).toBeGreaterThan(0);
});

inBrowser("an address can hold a rollout and, beside it, one of another step; each has its own links", async () => {
  const page = await open("/runs/demo/steps/2/3/4?beside=1/2/0");
  const titles = () => page.getByRole("heading", { level: 2 }).allInnerTexts();
  expect(await titles()).toEqual(["Step 2, rollout 4", "Step 1, rollout 0"]);
  const other = page.getByRole("region", { name: "step 1, rollout 0" });
  // The key `j` leads to the neighbor of the first rollout.
  expect(await other.getByTitle("j", { exact: true }).count()).toBe(0);
  await other.getByRole("link", { name: "rollout 1 →" }).click();
  await page.waitForURL(/steps\/2\/3\/4\?beside=1\/2\/1$/);
  await expect.poll(titles).toEqual(["Step 2, rollout 4", "Step 1, rollout 1"]);
  await page.keyboard.press("k");
  await page.waitForURL(/steps\/2\/3\/3\?beside=1\/2\/1$/);
  await expect.poll(titles).toEqual(["Step 2, rollout 3", "Step 1, rollout 1"]);
});

inBrowser("an axis of less than a dollar has labels between its ends", async () => {
  const page = await open("/");
  await page.route("**/api/runs/demo", async (route) => {
    const view: RunView = await (await route.fetch()).json();
    const perStep = view.perStep.map((step, i) => ({ ...step, usd: 0.021 + 0.221 * i }));
    await route.fulfill({ json: { ...view, perStep } });
  });
  await page.goto(`${dashboard().origin}/compare?runs=demo&x=usd`);
  await drawn(page);
  const labels = await page.locator(".chart").first().locator("text").allTextContents();
  expect(labels).toEqual(expect.arrayContaining(["0.021", "0.1", "0.2", "0.3", "0.4", "0.463"]));
});

inBrowser("a step's page shows its summary, and one cell per rollout, as many correct as recorded", async () => {
  const page = await open("/runs/demo/steps/2");
  const { correct, rollouts, excluded, zeroVariance, groups } = newest();
  const text = await textOf(page);
  expect(text).toContain(`reward ${rewards()} · ${percent(correct)} correct`);
  expect(text).toContain(`${zeroVariance} of ${groups} groups with zero variance`);
  expect(await page.locator(".group").count()).toBe(groups);
  expect(await page.locator(".cells .cell").count()).toBe(rollouts + excluded);
  expect(await page.locator(".cells .cell.correct").count()).toBe(Math.round(correct * rollouts));
});

inBrowser("the questions of an evaluation add up to its score", async () => {
  const page = await open("/runs/demo/evaluations");
  const { before, after } = report().heldOut;
  const right = (column: number) => page.locator(`tbody td:nth-child(${column})`).getByText("100.0%").count();
  expect([await right(3), await right(4)]).toEqual([before?.correct, after?.correct]);
  expect(await page.locator("tbody tr").count()).toBe(before?.n);
});

inBrowser("the worst rollout of the newest step is three clicks from the list of runs", async () => {
  const page = await open("/");
  await page.getByRole("link", { name: "demo" }).click();
  await page.getByRole("link", { name: "worst rollouts of the newest step" }).click();
  await page.locator(".cells .cell").first().click();
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForURL(/steps\/2\/\d+\/\d+$/);
  await drawn(page);
  const [group, rollout] = page.url().split("/").slice(-2).map(Number);
  const step = await read<StepView>(page, "/runs/demo/steps/2");
  const all = step.groups.flatMap((one) => one.rollouts.map((cell) => ({ ...cell, group: one.group })));
  const worst = Math.min(...all.flatMap(({ reward }) => reward ?? []));
  expect(all.find((one) => one.group === group && one.rollout === rollout)?.reward).toBe(worst);
  expect(await textOf(page)).toContain(`reward ${worst.toFixed(3)}`);
});
