/** @file A recipe's note on a question, such as that its facts are shuffled, is in every view that shows the question or one of its rollouts. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { z } from "zod";
import { dashboardApp } from "../../cli/ui/app.ts";
import { openRunWatcher } from "../../cli/ui/watch-runs.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { Export } from "../../ui/export-view.ts";
import * as views from "../../ui/views.ts";
import { chdirToProject } from "./command-line.ts";
import { printed } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { job, question, RUN, scoreOf } from "./records.ts";

const KEY = "a-key-for-tests-only";
const JOBS = [job("sampled", 0, 3), job("greedy", 0, 4), job("sampled", 1, 8), job("greedy", 1, 9)];
/** The notes of the recipe below. It has none on q2 and held2. */
const NOTE = { q1: "facts of q1 are <shuffled>", held1: "facts of held1 are <shuffled>" };

const folder = chdirToProject();
const watcher = openRunWatcher(() => {});
const app = dashboardApp({ key: KEY, hosts: ["127.0.0.1"], watcher });

beforeAll(async () => {
  mkdirSync(join(folder, "noting"));
  const note = "({ id }) => id.endsWith('1') ? 'facts of ' + id + ' are <shuffled>' : undefined";
  const recipe = `export const recipe = { name: "noting", config: {}, questions() {}, note: ${note} };\n`;
  writeFileSync(join(folder, "noting/recipe.mjs"), recipe);
  await recordRun(folder, {
    config: { recipe: "./noting" },
    questions: { train: [question("q1"), question("q2")], heldOut: [question("held1"), question("held2")] },
    async more({ objects }) {
      for (const { job: id, team, suite } of JOBS) {
        const result = { run: RUN, job: id, team, suite, lost: [], ...scoreOf(1, 1), questions: [], seconds: 1 };
        await objects.commit(objectKeys.evaluation(RUN, id), new TextEncoder().encode(JSON.stringify(result)));
      }
    },
  });
});
afterAll(() => watcher.close());

async function view<View>(schema: z.ZodType<View>, path: string): Promise<View> {
  const cookie = `mgrpo-ui-4711=${KEY}`;
  const response = await app.request(`http://127.0.0.1:4711/api/runs/${RUN}${path}`, { headers: { cookie } });
  return schema.parse(await response.json());
}

test("the views of a step, a group and a rollout have the note on each question", async () => {
  const { groups } = await view(views.StepView, "/steps/0");
  expect(groups.map(({ question: { note } }) => note)).toEqual([NOTE.q1, null]);
  expect((await view(views.GroupView, "/steps/0/0")).row.question.note).toBe(NOTE.q1);
  expect((await view(views.GroupView, "/steps/0/1")).row.question.note).toBeNull();
  const { row, tree } = await view(views.RolloutView, "/steps/0/0/0");
  expect([row.question.note, tree.note]).toEqual([NOTE.q1, NOTE.q1]);
});

test("each hit of a search has the note on its question", async () => {
  const notes = async (query: string) => {
    const { hits } = await view(views.SearchView, `/steps/0/search?${query}`);
    return hits.map(({ group, note }) => [group, note]);
  };
  expect(await notes("text=lisbon")).toEqual([[0, NOTE.q1]]);
  expect(await notes("filter=wrong")).toEqual([[0, NOTE.q1]]);
  expect(await notes("filter=lost")).toEqual([[1, null]]);
});

test("the list of an evaluation's questions and the answers to one have the notes", async () => {
  const { prompts, notes } = await view(views.EvaluationsView, "/evaluations");
  expect(Object.keys(prompts)).toEqual(["held1", "held2"]);
  expect(notes).toEqual({ held1: NOTE.held1 });
  const answers = await view(views.AnswersView, "/evaluations/sampled-1?question=held1");
  expect(answers.question.note).toBe(NOTE.held1);
});

test("an exported step has the note on each question, and in the terminal it precedes the question", async () => {
  await printed("show", RUN, "0", "--html", "step.html");
  const [, stored = ""] =
    /<script type="application\/json" id="views">(.*?)<\/script>/s.exec(readFileSync("step.html", "utf8")) ?? [];
  const { views: exported } = Export.parse(JSON.parse(stored));
  const { groups } = views.StepView.parse(exported[`/api/runs/${RUN}/steps/0`]);
  expect(groups.map(({ question: { note } }) => note)).toEqual([NOTE.q1, null]);
  const shown = await printed("show", RUN, "0");
  expect(shown.match(/note: .*/g)).toEqual([`note: ${NOTE.q1}`]);
  expect(shown.indexOf(NOTE.q1)).toBeLessThan(shown.indexOf(question("q1").prompt));
});
