/** @file An agent's own temperature applies to that agent only; a plan without such temperatures, as in evaluations, samples all agents alike. */
import { expect, test } from "vitest";
import { samplingOf, trainingSampling } from "../../gpu-workers/rollouts/sampling.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

const config = teamConfig({ temperature: 0.9 });
const searcher = config.agents["searcher"] ?? expect.fail("no searcher");

test("an agent with a temperature of its own samples at it, the others at the run's", () => {
  const plan = trainingSampling({
    ...config,
    agents: { ...config.agents, searcher: { ...searcher, temperature: 0.7 } },
  });
  expect(samplingOf(plan, "searcher")).toEqual({ temperature: 0.7, topP: 1, topK: 0 });
  expect(samplingOf(plan, "main")).toEqual({ temperature: 0.9, topP: 1, topK: 0 });
});

test("without a temperature of its own, an agent's sampling settings serialize exactly as the plan's, since invocation ids hash them", () => {
  const plan = trainingSampling(config);
  expect(JSON.stringify(samplingOf(plan, "searcher"))).toBe(JSON.stringify(plan.sampling));
});

test("a plan without per-agent temperatures applies its own temperature to every agent", () => {
  const plan = { sampling: { temperature: 0, topP: 1, topK: 0 } };
  for (const agent of ["main", "searcher"]) expect(samplingOf(plan, agent).temperature).toBe(0);
});
