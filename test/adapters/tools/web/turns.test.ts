/** @file The visit tool passes its rollout to the document reader, so that a rollout with many pages does not hold up the others. */
import { expect, test, vi } from "vitest";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import { address } from "../../../fakes/conversations.ts";
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

test("all conversations of a rollout share one caller, and another rollout has its own", async () => {
  const world = await serveWorld();
  const tools = await openWorldTools(world);
  // Each conversation opens a budget of its own, so only the address identifies the rollout.
  const visit = (path: string, rollout: number) =>
    tools.call(
      "visit",
      { url: world.origin + path },
      { address: { ...address, rollout }, budget: openToolBudget(undefined) },
    );
  await visit("/wiki/Alby", 0);
  await visit("/wiki/Corby", 1);
  await visit("/paper.pdf", 0);
  expect(new Set(callers).size).toBe(2);
  expect(callers[0]).toBe(callers[2]);
  await tools.close();
  await world.close();
});
