/** @file Settings of the algorithm that contradict each other are refused with one line that says what to write. */
import { expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";

const faultsOf = (algorithm: object, rest: object = {}): string[] => {
  const agents = { main: { model: "m", delegates: ["sub"] }, sub: { model: "s" } };
  const result = RunConfig.safeParse({ run: "r", recipe: "atlas", seed: 1, steps: 2, agents, algorithm, ...rest });
  return (result.error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
};

test.each<[object, RegExp]>([
  [
    { policyLoss: { kind: "cispo" }, ratio: "sequence" },
    /^algorithm\.policyLoss: cispo weighs each token by its own ratio, not by 'sequence': set ratio to token$/,
  ],
  [{ policyLoss: { kind: "dual-clip", c: 1 } }, /^algorithm\.policyLoss\.c: Too small/],
  [{ policyLoss: { kind: "clip", c: 3 } }, /^algorithm\.policyLoss: Unrecognized key: "c"/],
])("%o is refused", (algorithm, message) => {
  expect(faultsOf(algorithm)).toEqual([expect.stringMatching(message)]);
});

test.each<object>([{}, { policyLoss: { kind: "cispo" } }, { policyLoss: { kind: "dual-clip" } }])(
  "%o is accepted",
  (algorithm) => {
    expect(faultsOf(algorithm)).toEqual([]);
  },
);
