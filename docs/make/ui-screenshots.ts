/** @file Pictures of the dashboard, from a run: its list, its curves, a step and a rollout. */
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { requireChromium } from "./chromium.ts";
import { startDashboard } from "./dashboard.ts";

const SIZE = { width: 1200, height: 820 };

/**
 * @param folder the one whose `runs` hold the run.
 * @param to where the pictures go.
 */
export async function photographDashboard(folder: string, run: string, to: string): Promise<void> {
  const dashboard = await startDashboard(folder);
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
    await take("ui-rollout.png", `/runs/${run}/steps/2/3/1`);
  } finally {
    await browser.close();
    await dashboard.close();
  }
}

/** Waits until every chart of the page is drawn. */
async function settled(page: Page): Promise<void> {
  for (const chart of await page.locator(".chart").all())
    await chart.locator("svg path").first().waitFor({ state: "attached" });
  await page
    .locator(".pulse")
    .or(page.getByRole("heading", { name: "Runs" }))
    .first()
    .waitFor();
}
