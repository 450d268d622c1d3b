/** @file Exported pages, opened as files: the same views as the dashboard's, without a request, and hostile text stays text. */
import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import axe, { type AxeResults } from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, inject } from "vitest";
import { drawn, inBrowser, openDashboard, textOf } from "./browser.ts";
import { MARKUP, SHOWN_NOTE } from "./hostile-run.ts";

const COMMAND = resolve(import.meta.dirname, "../../dist/cli/mgrpo.js");

const { open: openLive } = openDashboard();
let browser: Browser | undefined;
const faults: string[] = [];
beforeAll(async () => {
  const executablePath = inject("chromium");
  if (executablePath !== "") browser = await chromium.launch({ executablePath, timeout: 60_000 });
});
afterAll(() => browser?.close());

/** Exports a view, and opens the file. A request for anything other than the file is a fault, and so is an error. */
async function openExport(run: string, address: string, width = 1280): Promise<Page> {
  const file = join(inject("project"), `${run}-${address.replaceAll("/", "-")}.html`);
  const command = [COMMAND, "show", run, address, "--html", file];
  execFileSync(process.execPath, command, { cwd: inject("project"), stdio: ["ignore", "ignore", "inherit"] });
  const page = await (browser ?? expect.fail()).newPage({ viewport: { width, height: 900 } });
  const own = pathToFileURL(file).href;
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(own) && !url.startsWith("data:")) faults.push(`asked for ${url}`);
  });
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  await page.goto(own);
  await drawn(page);
  return page;
}

/** The address in the page's fragment: empty until the reader follows a link. */
const addressOf = (page: Page): Promise<string> => page.evaluate(() => location.hash);

/** What the dashboard shows at an address, line by line. */
async function liveLines(address: string): Promise<string[]> {
  const page = await openLive(address);
  return (await textOf(page)).split("\n");
}

inBrowser(
  "an exported step has the same groups as the dashboard's page, can sort them, and leads to a rollout and back",
  async () => {
    const page = await openExport("demo", "2");
    const prompts = () => page.locator(".group h2").allInnerTexts();
    // The file has no other step, so the key that leads to one does nothing.
    await page.keyboard.press("[");
    expect(await addressOf(page)).toBe("");
    const live = await openLive("/runs/demo/steps/2?sort=worst");
    const worst = await live.locator(".group h2").allInnerTexts();
    expect((await prompts()).toSorted()).toEqual(worst.toSorted());
    await page.getByLabel("order of the groups").selectOption("worst");
    await expect.poll(prompts).toEqual(worst);
    await page.locator(".cells .cell").first().click();
    await page.getByRole("heading", { level: 2, name: /^Step 2, rollout/ }).waitFor();
    const own = new URL(page.url()).hash.slice(1);
    const shown = (await textOf(page)).split("\n");
    const missing = (await liveLines(own)).filter((line) => !shown.includes(line));
    // What an export of a step leaves out: other steps, and tokens.
    expect(missing.filter((line) => !/^(tokens|compare with the same question|step \d+)/.test(line))).toEqual([]);
    // To the next rollout, or the one before.
    await page.keyboard.press(own.endsWith("/0") ? "j" : "k");
    await expect.poll(() => new URL(page.url()).hash.slice(1)).not.toBe(own);
    await page.goBack();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Step 2" }).waitFor();
    expect(faults).toEqual([]);
  },
);

inBrowser("an exported rollout has its tokens, and case studies can be exported too", async () => {
  const page = await openExport("demo", "2/3/4");
  // The file has no other rollout.
  await page.keyboard.press("k");
  expect(await addressOf(page)).toBe("");
  await page.getByRole("button", { name: "tokens" }).first().click();
  await expect.poll(() => page.locator(".tokens .sampled").count()).toBeGreaterThan(5);
  expect(await page.locator("main a[href^='/']").count()).toBe(0);
  const cases = await openExport("demo", "cases");
  await cases.getByRole("heading", { name: "Case studies" }).waitFor();
  expect((await cases.getByText("before training").count()) > 0).toBe(true);
  expect(faults).toEqual([]);
});

inBrowser(
  "hostile text is shown as it is written; no page is wider than a phone, and axe finds nothing serious",
  async () => {
    for (const address of ["0", "0/0", "0/0/0"]) {
      const page = await openExport("tiny", address, 390);
      for (const summary of await page.locator("details:not([open]) > summary").all()) await summary.click();
      expect(await textOf(page)).toContain(MARKUP);
      const notes = await page.locator(".note").allInnerTexts();
      expect(notes).toHaveLength((await page.locator(".group").count()) || 1);
      for (const note of notes) expect(note).toContain(SHOWN_NOTE);
      expect(await page.evaluate(() => Reflect.get(window, "owned"))).toBeUndefined();
      expect(await page.evaluate(() => document.documentElement.scrollWidth), address).toBeLessThanOrEqual(390);
      await page.evaluate(axe.source);
      const { violations }: AxeResults = await page.evaluate(() =>
        (globalThis as unknown as { axe: typeof axe }).axe.run(),
      );
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`)).toEqual([]);
    }
    expect(faults).toEqual([]);
  },
);
