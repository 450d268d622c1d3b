/** @file A page that loads more slowly than its run changes, and one whose store does not answer at first. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RunPulse } from "../../ui/views.ts";
import { inBrowser, openDashboard } from "./browser.ts";

const LOAD_MS = 1500;
const PULSE_MS = 100;

const { open, dashboard } = openDashboard();

inBrowser("an open step is shown although a pulse arrives before each of its loads ends", async () => {
  const page = await open("/");
  let n = 0;
  await page.route("**/api/runs/demo/events", async (route) => {
    const pulse: RunPulse = {
      ...{ state: "running", reason: "", closed: 2, step: 2, openStep: 2, stall: null, usd: null, workers: [] },
      wait: `rollouts ${n++}/128`,
    };
    // The browser reconnects after PULSE_MS.
    const body = `retry: ${PULSE_MS}\nevent: pulse\ndata: ${JSON.stringify(pulse)}\n\n`;
    await route.fulfill({ contentType: "text/event-stream", body });
  });
  await page.route("**/api/runs/demo/steps/2?*", async (route) => {
    await sleep(LOAD_MS);
    await route.continue().catch(() => {});
  });
  await page.goto(`${dashboard().origin}/runs/demo/steps/2`);
  await page.getByRole("heading", { name: "Step 2", exact: true }).waitFor({ timeout: 20 * LOAD_MS });
});

inBrowser("a page whose store does not answer at first is shown once it does", async () => {
  const page = await open("/");
  // The browser logs the refused request.
  page.removeAllListeners("console");
  let loads = 0;
  await page.route("**/api/runs/demo/steps/1?*", async (route) => {
    loads += 1;
    if (loads > 1) return route.continue();
    return route.fulfill({ status: 503, json: { code: "store-unreachable", message: "no answer from the store" } });
  });
  await page.goto(`${dashboard().origin}/runs/demo/steps/1`);
  await page.getByText("no answer from the store").waitFor();
  await page.getByRole("heading", { name: "Step 1", exact: true }).waitFor();
});
