/** @file The rollouts of an evaluation: suspects run first, and a worker's record names each rollout before it starts, in as few writes as possible. */
import { expect, test } from "vitest";
import { RolloutsInFlight, suspectsFirst } from "../../../gpu-workers/evaluation/suspects-first.ts";

/** Runs one rollout of each group: suspects alone, the others up to three at a time. Returns the names in each write. */
async function writesOf(groups: number, suspects: Readonly<Record<string, number>>) {
  const writes: (readonly string[])[] = [];
  const inFlight = new RolloutsInFlight(async (names) => {
    await new Promise(setImmediate);
    writes.push(names);
  });
  const rollouts = Array.from({ length: groups }, (_, group) => ({ group, rollout: 0 }));
  const steps = {
    async run(rollout: { group: number }) {
      expect(writes.at(-1)).toContain(`${rollout.group}/0`);
      await new Promise(setImmediate);
      return rollout;
    },
    abandon: async (rollout: { group: number }) => rollout,
  };
  const { signal } = new AbortController();
  const results = await suspectsFirst(rollouts, 3, { suspects, limit: 3, inFlight }, steps, signal);
  expect(results).toEqual(rollouts);
  return writes;
}

test("rollouts that start together are named in one write, and the last write names none", async () => {
  expect(await writesOf(3, {})).toEqual([["0/0", "1/0", "2/0"], []]);
});

test("suspects are named alone, before the others; one that is abandoned is not named", async () => {
  expect(await writesOf(5, { "2/0": 0, "3/0": 3, "4/0": 2 })).toEqual([["2/0"], ["4/0"], ["0/0", "1/0"], []]);
});
