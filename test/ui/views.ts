/** @file The addresses of the dashboard: every view, with what its address can hold. */
import type { Page } from "playwright-core";
import type { EvaluationsView } from "../../ui/views.ts";

/** With the runs of recorded.ts. */
const VIEWS = [
  "/",
  "/?text=atlas&sort=after&down=1",
  "/compare?runs=demo,tiny",
  "/compare?runs=demo,tiny&x=tokens&seeds=apart",
  "/runs/demo",
  "/runs/demo/config",
  "/runs/demo/evaluations",
  "/runs/demo/evaluations?suite=held-out&page=0",
  "/runs/demo/steps/2",
  "/runs/demo/steps/2?sort=worst",
  "/runs/demo/steps/2?filter=wrong",
  "/runs/demo/steps/1?text=capital&filter=correct&sort=best",
  "/runs/demo/steps/2/3",
  "/runs/demo/steps/2/3/4",
  "/runs/demo/steps/2/3/4?beside=1/2/0",
  "/runs/demo/steps/2?sort=best&page=1",
  "/compare?runs=demo,tiny&x=usd",
  "/runs/demo/cases",
] as const;

/** @param page any page of the dashboard. */
export async function everyView(page: Page): Promise<readonly string[]> {
  const { evaluations } = await read<EvaluationsView>(page, "/runs/demo/evaluations");
  const { job, questions = [] } = evaluations.at(-1) ?? {};
  return [...VIEWS, `/runs/demo/evaluations/${job}?question=${questions[0]?.question}`];
}

/** A view of the API, in the session of a page. */
export async function read<View>(page: Page, path: string): Promise<View> {
  const response = await page.request.get(`${new URL(page.url()).origin}/api${path}`);
  return response.json();
}
