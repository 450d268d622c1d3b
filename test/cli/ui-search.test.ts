/** @file The pages of a step's search: each begins where the one before it ends, and says which groups it has searched. */
import { expect, test } from "vitest";
import { pageAt, searchedGroups } from "../../ui/app/parts/search-pages.ts";

test("each page begins at its own group and names the groups that it covers, unless it covers all", () => {
  const first = new URLSearchParams({ text: "river", filter: "any" });
  const second = pageAt(first, 32);
  const third = pageAt(second, 64);
  expect(second.toString()).toBe("text=river&filter=any&from=32");
  expect(third.toString()).toBe("text=river&filter=any&from=64");
  expect(searchedGroups(first, 32)).toBe("groups 0 to 31: ");
  expect(searchedGroups(second, 64)).toBe("groups 32 to 63: ");
  expect(searchedGroups(third, null)).toBe("from group 64 on: ");
  expect(searchedGroups(first, null)).toBe("");
});
