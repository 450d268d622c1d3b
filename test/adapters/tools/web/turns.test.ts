/** @file Whose turn a page is: the tool names its conversation to the reader, so that one with many pages does not hold up the others. */
import { expect, test, vi } from "vitest";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import { serveWorld } from "../../../world/server.ts";
import { openWorldTools } from "../../../world/tools.ts";

const callers: unknown[] = [];
vi.mock("../../../../adapters/tools/documents/reader.ts", () => ({
  openReader: () => ({
    async read(_document: unknown, caller: unknown) {
      callers.push(caller);
      return { title: "", text: "a text" };
    },
    async close() {},
  }),
}));

test("pages of one conversation have one caller, and those of another conversation another", async () => {
  const world = await serveWorld();
  const tools = await openWorldTools(world);
  const visitIn = (budget: ReturnType<typeof openToolBudget>) => (path: string) =>
    tools.call("visit", { url: world.origin + path }, { budget });
  const [one, other] = [visitIn(openToolBudget(undefined)), visitIn(openToolBudget(undefined))];
  await one("/wiki/Alby");
  await other("/wiki/Corby");
  await one("/paper.pdf");
  expect(new Set(callers).size).toBe(2);
  expect(callers[0]).toBe(callers[2]);
  await tools.close();
  await world.close();
});
