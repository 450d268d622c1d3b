/**
 * @file A browser and a dashboard for a test file, and pages that record every fault: errors, violations of the Content-Security-Policy,
 * dialogs, requests to other origins.
 */
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";
import { type DashboardProcess, spawnDashboard } from "../../docs/make/dashboard.ts";

const WIDE = { width: 1280, height: 900 };

const executablePath = inject("chromium");

/** A test that is skipped where there is no browser. */
export const inBrowser = test.skipIf(executablePath === "");

export interface Opened {
  readonly dashboard: () => DashboardProcess;
  /** A page at a path of the dashboard. The pages of a test share a session; one with options has its own. */
  open(path: string, options?: BrowserContextOptions): Promise<Page>;
}

/**
 * Opens a browser and a dashboard for a test file. After each test its pages are closed, and the test fails if a page had a fault.
 * @param folder returns the folder whose `runs` are shown.
 */
export function openDashboard(folder: () => string = () => inject("project")): Opened {
  let browser: Browser | undefined;
  let dashboard: DashboardProcess | undefined;
  let shared: BrowserContext | undefined;
  const faults: string[] = [];
  beforeAll(async () => {
    if (executablePath === "") return;
    dashboard = await spawnDashboard(folder());
    browser = await chromium.launch({ executablePath, timeout: 60_000 });
  });
  afterEach(async () => {
    for (const context of browser?.contexts() ?? []) await context.close();
    shared = undefined;
    expect(faults.splice(0)).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await dashboard?.close();
  });
  async function newSession(options: BrowserContextOptions): Promise<BrowserContext> {
    if (!browser || !dashboard) return expect.fail("no browser");
    const context = await browser.newContext({ viewport: WIDE, ...options });
    // The link sets the session's cookie.
    await context.request.get(dashboard.link);
    return context;
  }
  return {
    dashboard: () => dashboard ?? expect.fail("no dashboard"),
    async open(path, options) {
      if (!dashboard) return expect.fail("no dashboard");
      const session = options ? await newSession(options) : (shared ?? (await newSession({})));
      if (!options) shared = session;
      const page = await session.newPage();
      recordFaults(page, dashboard.origin, (fault) => faults.push(fault));
      await page.goto(dashboard.origin + path);
      await drawn(page);
      return page;
    },
  };
}

function recordFaults(page: Page, origin: string, add: (fault: string) => void): void {
  page.on("pageerror", (error) => add(`${page.url()}: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && add(`${page.url()}: ${message.text()}`));
  page.on("dialog", async (dialog) => {
    add(`${page.url()} opened a dialog: ${dialog.message()}`);
    // An open dialog blocks the page.
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("data:")) add(`${page.url()} asked for ${url}`);
  });
}

/** Waits until the page shows its view, and its charts are drawn. */
export async function drawn(page: Page): Promise<void> {
  await page.locator("main").waitFor();
  await page.waitForFunction(() => {
    const text = document.querySelector("main")?.innerText ?? "";
    const charts = [...document.querySelectorAll(".chart")];
    return !/^(Loading|Searching) …/m.test(text) && charts.every((chart) => chart.querySelector("svg path"));
  });
}

/** The visible text of a page below its header. */
export const textOf = (page: Page): Promise<string> => page.locator("main").innerText();
