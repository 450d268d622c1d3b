/** @file Screenshots of the dashboard (the list of runs; a run's curves, evaluations, a step and a rollout) and of an exported page. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, type Page } from "playwright-core";
import { requireChromium } from "./chromium.ts";
import { spawnDashboard } from "./dashboard.ts";

const SIZE = { width: 1200, height: 820 };

/**
 * Takes pictures of the dashboard's views of a run.
 * @param folder the folder whose `runs` has the run.
 * @param to the folder for the pictures.
 */
export async function captureDashboard(folder: string, run: string, to: string): Promise<void> {
  const dashboard = await spawnDashboard(folder);
  const browser = await chromium.launch({ executablePath: requireChromium() });
  try {
    const page = await browser.newPage({ viewport: SIZE });
    const take = async (name: string, path: string, height = SIZE.height) => {
      await page.setViewportSize({ ...SIZE, height });
      await page.goto(dashboard.origin + path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await settled(page);
      await page.screenshot({ path: join(to, name) });
    };
    await page.goto(dashboard.link);
    await take("ui-runs.png", "/", 320);
    await take("ui-run.png", `/runs/${run}`);
    await take("ui-step.png", `/runs/${run}/steps/2?sort=worst`);
    await take("ui-rollout.png", `/runs/${run}/steps/3/0/1`);
    await take("ui-evaluations.png", `/runs/${run}/evaluations`, 640);
  } finally {
    await browser.close();
    await dashboard.close();
  }
}

/** Waits until nothing on the page is loading, every chart is drawn and the run's state is shown. */
async function settled(page: Page): Promise<void> {
  while (/^Loading …/m.test(await page.locator("body").innerText())) await page.waitForTimeout(50);
  for (const chart of await page.locator(".chart").all())
    await chart.locator("svg path").first().waitFor({ state: "attached" });
  await page
    .locator(".pulse")
    .or(page.getByRole("heading", { name: "Runs" }))
    .first()
    .waitFor();
}

/** Takes a picture of a page that `mgrpo show --html` wrote. */
export async function captureExport(path: string, to: string, size: typeof SIZE): Promise<void> {
  const browser = await chromium.launch({ executablePath: requireChromium() });
  try {
    const page = await browser.newPage({ viewport: size });
    await page.goto(pathToFileURL(path).href);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.locator(".timeline svg").first().waitFor({ state: "attached" });
    await page.screenshot({ path: to });
  } finally {
    await browser.close();
  }
}
