/** @file A run halted while an evaluator works on a job: nothing more is sampled or paid for, and the resumed job reuses what is recorded. */
import { expect, test } from "vitest";
import { resumeInStore } from "../../../cli/local/resume-in-store.ts";
import { objectKeys, tableKeys } from "../../../core/contracts/keys.ts";
import { RunRecord } from "../../../core/contracts/records.ts";
import type { PolicyEngine } from "../../../core/ports.ts";
import type { Scorer } from "../../../core/scorer.ts";
import { haltRun } from "../../../core/training/halt-run.ts";
import { beginEvaluation } from "../../fixtures/relay/evaluation.ts";
import { relayEngine } from "../../fixtures/relay/policy.ts";
import { relayConfig } from "../../fixtures/relay/start.ts";

/** A started run with one suite, whose questions an evaluator answers one after another. */
async function openEvaluation() {
  const { agents } = relayConfig();
  const oneByOne = Object.fromEntries(
    Object.entries(agents).map(([name, agent]) => [name, { ...agent, engine: { ...agent.engine, slots: 1 } }]),
  );
  const changes = { agents: oneByOne, evaluation: { suites: [{ name: "sampled" }] } };
  const { memory, config, job, evaluate } = await beginEvaluation(changes);
  const sampled = { turns: 0 };
  const engine: PolicyEngine = {
    ...relayEngine,
    async openSampler(...request) {
      const sampler = await relayEngine.openSampler(...request);
      const sample: typeof sampler.sample = (...turn) => {
        sampled.turns += 1;
        return sampler.sample(...turn);
      };
      return { ...sampler, sample };
    },
  };
  return {
    memory,
    config,
    sampled,
    job,
    run: async () => RunRecord.parse(await memory.table.get(tableKeys.run(config.run))),
    answers: () => memory.objects.keys().filter((key) => key.includes("/rollouts/")).length,
    evaluate: (scorer: Scorer) => evaluate({ scorerOf: () => scorer, engineOf: () => engine }),
  };
}

test("a halt ends a job in progress at once: the job is queued again, and after resume its answers and verdicts are reused", async () => {
  const whole = await openEvaluation();
  await whole.evaluate({ judge: "paid", correct: () => 1 });
  const { n } = await whole.job();

  const { memory, config, job, run, evaluate, sampled, answers } = await openEvaluation();
  const asked: string[] = [];
  const halting: Scorer = {
    judge: "paid",
    async correct({ id }) {
      asked.push(id);
      if (asked.length < 2) return 1;
      await haltRun(memory.table, config.run, { code: "user", reason: "by hand" });
      return new Promise(() => {});
    },
  };
  await expect(evaluate(halting)).rejects.toThrow("run 'relay' is halted: by hand");
  expect(asked).toHaveLength(2);
  const [turns, committed] = [sampled.turns, answers()];
  // The judge was asked about two answers. Malformed answers are committed too, and need no verdict.
  expect(committed).toBeGreaterThanOrEqual(2);
  expect(committed).toBeLessThan(whole.answers());
  expect(turns).toBeLessThan(whole.sampled.turns);
  expect(await job()).toMatchObject({ state: "queued", owner: "", fence: 1 });
  expect(await memory.objects.get(objectKeys.evaluation(config.run, (await job()).job))).toBeUndefined();

  const [judged, unjudged] = asked.splice(0);
  await resumeInStore(memory, config, await run(), {});
  await evaluate({
    judge: "paid",
    correct({ id }) {
      asked.push(id);
      return 1;
    },
  });
  expect(await job()).toMatchObject({ state: "done", n, fence: 2 });
  expect(asked).not.toContain(judged);
  expect(asked[0]).toBe(unjudged);
  expect(sampled.turns).toBe(whole.sampled.turns);
});
