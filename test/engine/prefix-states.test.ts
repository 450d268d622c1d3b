/** @file Prefix states: equal caches share an id while it is kept, and different caches never have the same id. */
import { expect, test } from "vitest";
import { EMPTY_STATE, PrefixStates } from "../../engine/compiled/sampling/prefix-states.ts";

test("a state follows from the state before, the tokens and how they were computed; ids are not reused after the known transitions are dropped", () => {
  const states = new PrefixStates();
  const first = states.after(EMPTY_STATE, "prefilled", [1, 2]);
  expect(states.after(EMPTY_STATE, "prefilled", [1, 2])).toBe(first);
  const different = [
    EMPTY_STATE,
    first,
    states.after(EMPTY_STATE, "prefilled", [12]),
    states.after(EMPTY_STATE, "decoded", [1, 2]),
    states.after(EMPTY_STATE, "block-decoded", [1, 2]),
    states.after(first, "prefilled", [1, 2]),
  ];
  // More transitions than are kept.
  for (let token = 0; token < 60_000; token++) different.push(states.after(first, "decoded", [token]));
  different.push(states.after(EMPTY_STATE, "prefilled", [1, 2]));
  expect(new Set(different).size).toBe(different.length);
});
