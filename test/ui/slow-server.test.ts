/** @file A page that loads more slowly than its run changes. */
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
