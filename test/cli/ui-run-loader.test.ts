/**
 * @file A run's page loads only new steps and the newest known one, and retries failed loads. Also: which changes reload the pages of a run, a step
 * and the evaluations.
 */
import { expect, test } from "vitest";
import { evaluationsRevisionOf, RunLoader, revisionOf, stepRevisionOf } from "../../ui/app/run-loader.ts";
import type { RunView } from "../../ui/views.ts";

/**
 * The API of a run whose steps are 2 and 3, since the scores of the first two have expired; `close` adds a step; `remove` removes all, and sets
 * the `seconds` of those after it.
 */
function growingRun() {
  const steps = [2, 3];
  let seconds = 1;
  const asked: string[] = [];
  return {
    asked,
    close: (step: number) => void steps.push(step),
    remove(next: number) {
      steps.splice(0);
      seconds = next;
    },
    async read(path: string) {
      asked.push(path);
      const from = Number(/from=(\d+)$/.exec(path)?.[1]);
      const perStep = steps.filter((step) => step >= from).map((step) => ({ step, seconds }));
      return { view: { run: "tiny", step: (steps.at(-1) ?? -1) + 1, perStep } as unknown as RunView };
    },
  };
}

test("only new steps and the newest known one are loaded, even if the scores of the first steps have expired", async () => {
  const { asked, close, read } = growingRun();
  const loader = new RunLoader("tiny", read);
  const shown: (number[] | undefined)[] = [];
  const load = (revision: string) =>
    loader.load(revision, ({ view }) => shown.push(view?.perStep.map(({ step }) => step)));
  await load("4 running");
  close(4);
  await load("5 running");
  expect(asked).toEqual(["/api/runs/tiny?from=0", "/api/runs/tiny?from=3"]);
  expect(shown).toEqual([
    [2, 3],
    [2, 3, 4],
  ]);
});

test("another run that begins under the same name is shown without the steps of the run before it", async () => {
  const { asked, close, remove, read } = growingRun();
  const loader = new RunLoader("tiny", read);
  const shown: (number[] | undefined)[] = [];
  const load = (revision: string) =>
    loader.load(revision, ({ view }) => shown.push(view?.perStep.map(({ step }) => step)));
  await load("4 running");
  remove(2);
  close(0);
  await load("1 running");
  expect(asked).toEqual(["/api/runs/tiny?from=0", "/api/runs/tiny?from=3", "/api/runs/tiny?from=0"]);
  expect(shown).toEqual([[2, 3], [0]]);
});

test("another run of the same name that has more steps is shown without the steps of the run before it", async () => {
  const { close, remove, read } = growingRun();
  const loader = new RunLoader("tiny", read);
  const shown: unknown[] = [];
  const load = (revision: string) =>
    loader.load(revision, ({ view }) => shown.push(view?.perStep.map(({ step, seconds }) => [step, seconds])));
  await load("4 running");
  remove(2);
  for (const step of [0, 1, 2, 3, 4]) close(step);
  await load("5 running");
  expect(shown[1]).toEqual([0, 1, 2, 3, 4].map((step) => [step, 2]));
});

test("a revision that arrives during a load is loaded after it", async () => {
  const { asked, close, read } = growingRun();
  const loader = new RunLoader("tiny", read);
  const first = loader.load("4 running", () => {});
  close(4);
  await Promise.all([first, loader.load("5 running", () => {})]);
  expect(asked).toEqual(["/api/runs/tiny?from=0", "/api/runs/tiny?from=3"]);
});

test("a failed load is retried until it succeeds, even if no new revision arrives", async () => {
  const { read } = growingRun();
  const answers = ["no-server", "store-unreachable"];
  const failing = async (path: string) => {
    const code = answers.shift();
    return code === undefined ? await read(path) : { failure: { code, message: "away" } };
  };
  const loader = new RunLoader("tiny", failing, 0.001);
  const shown: (string | undefined)[] = [];
  await loader.load("4 running", ({ view, failure }) => shown.push(failure?.code ?? view?.run));
  expect(shown).toEqual(["no-server", "store-unreachable", "tiny"]);
});

test("a failed load leaves the displayed run unchanged, and is retried", async () => {
  const { close, read } = growingRun();
  let isAway = false;
  const failing = async (path: string) => {
    if (!isAway) return read(path);
    isAway = false;
    return { failure: { code: "store-unreachable", message: "away" } };
  };
  const loader = new RunLoader("tiny", failing, 0.001);
  const shown: (number | string | undefined)[] = [];
  const load = (revision: string) =>
    loader.load(revision, ({ view, failure }) => shown.push(failure?.code ?? view?.perStep.length));
  await load("4 running");
  close(4);
  isAway = true;
  await load("5 running");
  expect(shown).toEqual([2, 3]);
});

test("once its page is left, a run whose load fails is not loaded again", async () => {
  let loads = 0;
  const failing = async () => {
    loads += 1;
    return { failure: { code: "no-server", message: "away" } };
  };
  const loader = new RunLoader("tiny", failing, 0.001);
  await loader.load("4 running", () => loads === 3 && loader.close());
  expect(loads).toBe(3);
});

test("an evaluation of a finished run is a new revision; the progress of a step is not", () => {
  const revision = (state: "running" | "finished", wait: string | null) => revisionOf({ closed: 4, state, wait });
  const [first, last, over] = ["evaluation 1 of 2: test", "evaluation 2 of 2: greedy", null];
  expect(new Set([first, last, over].map((wait) => revision("finished", wait))).size).toBe(3);
  expect(revision("running", "rollouts 1/8")).toBe(revision("running", "rollouts 2/8"));
});

test("a step's page is loaded again with every pulse until the step is closed and the next one planned; the page of an earlier step is not", () => {
  const pulses = [
    { closed: 3, openStep: 3, wait: "rollouts 1/8" },
    { closed: 3, openStep: 3, wait: "rollouts 8/8" },
    { closed: 4, openStep: null, wait: "closing the step" },
    { closed: 4, openStep: 4, wait: "rollouts 0/8" },
    { closed: 5, openStep: 5, wait: "rollouts 0/8" },
    { closed: 6, openStep: null, wait: null },
  ];
  const revisions = pulses.map((pulse) => stepRevisionOf(pulse, 3));
  expect(new Set(revisions.slice(0, 3)).size).toBe(3);
  expect(revisions.slice(3)).toEqual([undefined, undefined, undefined]);
  // At the third pulse, step 3 is closed, but the next step is not planned yet.
  expect(revisions[2]).toBe("4 null closing the step");
  expect(pulses.map((pulse) => stepRevisionOf(pulse, 2))).toEqual(pulses.map(() => undefined));
  expect(stepRevisionOf(undefined, 3)).toBeUndefined();
});

test("the page of the evaluations is loaded again with each step, with each evaluation after the last step, and once more when none is left", () => {
  const pulses = [
    { closed: 3, state: "running", wait: "rollouts 1/8" },
    { closed: 4, state: "running", wait: "rollouts 1/8" },
    { closed: 5, state: "finished", wait: "evaluation 1 of 2: test" },
    { closed: 5, state: "finished", wait: "evaluation 2 of 2: greedy" },
    { closed: 5, state: "finished", wait: null },
    { closed: 5, state: "halted", wait: null },
  ] as const;
  const revisions = pulses.map(evaluationsRevisionOf);
  expect(new Set(revisions.slice(0, 4)).size).toBe(4);
  expect(revisions.slice(4)).toEqual([undefined, undefined]);
});
