/** @file The pages of a run that trains, other than its own and that of a step: they are loaded again as the run progresses. */
import { expect } from "vitest";
import type { EvaluationsView, RunPulse } from "../../ui/views.ts";
import { inBrowser, openDashboard } from "./browser.ts";

const { open, dashboard } = openDashboard();

const PULSE: Omit<RunPulse, "closed" | "wait"> = {
  ...{ state: "running", reason: "", step: 0, openStep: 0, stall: null, usd: null, workers: [] },
};

inBrowser.for([
  ["the evaluations", "evaluations"],
  ["a group of the open step", "steps/0/0"],
  ["a rollout of the open step", "steps/0/0/0"],
])("the page of %s follows the run", async ([, path]) => {
  const page = await open("/");
  let n = 0;
  await page.route("**/api/runs/tiny/events", async (route) => {
    n += 1;
    const pulse: RunPulse = { ...PULSE, closed: path === "evaluations" ? n : 0, wait: `rollouts ${n}/128` };
    const body = `retry: 100\nevent: pulse\ndata: ${JSON.stringify(pulse)}\n\n`;
    await route.fulfill({ contentType: "text/event-stream", body });
  });
  // The run's evaluations have no results in its store.
  const evaluations: EvaluationsView = { evaluations: [], hasCases: false, prompts: {}, notes: {} };
  await page.route("**/api/runs/tiny/evaluations", (route) => route.fulfill({ json: evaluations }));
  let loads = 0;
  page.on("request", (request) => {
    if (request.url().endsWith(`/api/runs/tiny/${path}`)) loads += 1;
  });
  await page.goto(`${dashboard().origin}/runs/tiny/${path}`);
  await expect.poll(() => loads).toBeGreaterThan(3);
});
