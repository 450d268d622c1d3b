/** @file The answers to one question of an evaluation: shown, or a reason why there is none. */
import { expect, test } from "vitest";
import type { Source } from "../../cli/show/source.ts";
import { answersView } from "../../cli/ui/evaluations.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, fillFinishedRun, finishedRun, job, question, RUN } from "./records.ts";

const ANSWERED = job("sampled", 1, 8);
const OPEN = { ...job("sampled", 2, 0), state: "queued" as const };

/** The source of a run with one held-out question, which only the team of `ANSWERED` has answered. `step`: in the answer's address. */
async function sourceOfAnswers(own = config, step = 1): Promise<Source> {
  const store = memoryStore();
  await fillFinishedRun(store, { ...finishedRun, questions: { train: [question("q0")], heldOut: [question("q1")] } });
  await store.table.insert(tableKeys.job(RUN, OPEN.job), { ...OPEN, interval: { ...OPEN.interval } });
  const address = { run: RUN, phase: `eval:${ANSWERED.job}`, step, group: 0, rollout: 0 };
  const outcome = { ...finishedRun.outcome, address };
  await store.objects.commit(objectKeys.outcome(address), new TextEncoder().encode(JSON.stringify(outcome)));
  const ended = { state: "finished" as const, reason: "", step: 1, evaluations: [], folder: "." };
  return { ...ended, config: own, summaries: async () => [], read: (read) => read(store) };
}

test("a missing answer is shown as not given yet while the evaluation is open, and as expired once it is done", async () => {
  const source = await sourceOfAnswers();
  const tagsOf = async (id: string) => {
    const { trees } = await answersView(source, id, "q1", () => undefined);
    return trees.flatMap(({ tags }) => tags.map(({ text }) => text));
  };
  expect(await tagsOf(ANSWERED.job)).toEqual([]);
  expect(await tagsOf(OPEN.job)).toEqual(["not answered yet"]);
  expect(await tagsOf("sampled-0")).toEqual([expect.stringContaining("has expired")]);
});

test("answers are found in a run whose first team is not number 0", async () => {
  const numbered = RunConfig.parse({ ...config, evaluation: { ...config.evaluation, firstTeam: 3 } });
  const { trees } = await answersView(await sourceOfAnswers(numbered, 4), ANSWERED.job, "q1", () => undefined);
  expect(trees.map(({ tags, children }) => [tags, children.length > 0])).toEqual([[[], true]]);
});
