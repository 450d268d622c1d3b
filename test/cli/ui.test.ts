/** @file The server of `mgrpo ui`: views match their schemas, whatever does not exist is a 404, and only holders of the key may read. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { z } from "zod";
import { readOutcome } from "../../cli/conversations.ts";
import { openSource } from "../../cli/show/source.ts";
import { dashboardApp } from "../../cli/ui/app.ts";
import { openRunWatcher } from "../../cli/ui/watch-runs.ts";
import { encrypt } from "../../core/contracts/encryption.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { Outcome } from "../../core/contracts/rollout.ts";
import { TimelineView } from "../../ui/timeline-view.ts";
import * as views from "../../ui/views.ts";
import { chdirToProject, mgrpo, trainRelay } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { finishedRun, job, question, RUN, scoreOf } from "./records.ts";

const KEY = "a-key-for-tests-only";
const HOST = "http://127.0.0.1:4711";
const CANARY = "canary-of-the-benchmark";
const SECRET = "Which river carries the marker 7f3a?";

const folder = chdirToProject();
const reports: string[] = [];
const watcher = openRunWatcher((line) => reports.push(line));
const app = dashboardApp({ key: KEY, hosts: ["127.0.0.1"], watcher });
const cookie = `mgrpo-ui-4711=${KEY}`;
const get = (path: string, headers: Record<string, string> = { cookie }) => app.request(`${HOST}${path}`, { headers });

beforeAll(async () => {
  expect(await mgrpo(folder, ...trainRelay("relay", "--steps", "2"))).toMatchObject({ code: 0 });
  const encrypted = { ...question("q9"), prompt: encrypt(SECRET, CANARY), answer: encrypt("Tagus", CANARY) };
  await recordRun(folder, {
    config: {
      evaluation: {
        suites: [
          { name: "secret", benchmark: "xbench", data: "xbench.csv" },
          { name: "sampled", closedBook: true },
          { name: "greedy", closedBook: true },
          { name: "skipping", benchmark: "jsonl", data: "own.jsonl", skip: 1, closedBook: true },
        ],
      },
      judge: { model: "openai#scripted" },
    },
    questions: {
      train: [question("q1"), question("q2")],
      heldOut: [],
      suites: {
        secret: { canary: CANARY, questions: [encrypted] },
        skipping: { questions: [question("q3"), question("q4")] },
      },
    },
    more: async ({ table, objects }) => {
      const { interval, ...done } = job("secret", 1, 1);
      await table.insert(tableKeys.job(RUN, done.job), { ...done, interval: { ...interval } });
      await table.insert(tableKeys.job(RUN, SKIPPING.job), { ...SKIPPING, interval: { ...SKIPPING.interval } });
      for (const group of [0, 1]) {
        const address = { run: RUN, phase: `eval:${SKIPPING.job}`, step: 1, group, rollout: 0 };
        const { conversation } = finishedRun.outcome as Extract<Outcome, { status: "finished" }>;
        const answered = {
          ...finishedRun.outcome,
          address,
          conversation: { ...conversation, answer: `outcome ${group}` },
        };
        await objects.commit(objectKeys.outcome(address), new TextEncoder().encode(JSON.stringify(answered)));
      }
      for (const { job: id, team, suite } of [done, ...OTHERS, SKIPPING]) {
        const result = { run: RUN, job: id, team, suite, lost: [], ...scoreOf(1, 1), questions: SCORES, seconds: 1 };
        await objects.commit(objectKeys.evaluation(RUN, id), new TextEncoder().encode(JSON.stringify(result)));
      }
    },
  });
});
afterAll(() => watcher.close());

const SCORES = [{ question: "q9", kind: "hop1", n: 1, correct: 1 }];
const SKIPPING = job("skipping", 1, 1);
const OTHERS = [job("sampled", 0, 3), job("greedy", 0, 4), job("sampled", 1, 8), job("greedy", 1, 9)];

/** The view at a path of the API, parsed. */
async function view<View>(schema: z.ZodType<View>, path: string): Promise<View> {
  const response = await get(`/api${path}`);
  const body = await response.json();
  expect(response.status, JSON.stringify(body)).toBe(200);
  return schema.parse(body);
}

test("the views of runs, steps, groups, rollouts and evaluations match their schemas, and agree with each other", async () => {
  const { runs, failure } = await view(views.RunsView, "/runs");
  expect(runs.map(({ run }) => run)).toEqual(["relay", RUN]);
  expect(failure).toBeNull();
  const run = await view(views.RunView, "/runs/relay");
  expect(run.perStep.map(({ step }) => step)).toEqual([0, 1]);
  expect((await view(views.RunView, "/runs/relay?from=1")).perStep.map(({ step }) => step)).toEqual([1]);
  const shown = await view(views.StepView, "/runs/relay/steps/1");
  expect(shown).toMatchObject({ step: 1, state: "closed", summary: run.perStep[1], hasNext: false });
  expect(await view(views.StepView, "/runs/relay/steps/0")).toMatchObject({ hasNext: true });
  const group = await view(views.GroupView, "/runs/relay/steps/1/0");
  expect(group.row).toEqual(shown.groups[0]);
  const rollout = await view(views.RolloutView, "/runs/relay/steps/1/0/1");
  expect(rollout.row).toEqual(shown.groups[0]);
  const { evaluations, prompts } = await view(views.EvaluationsView, "/runs/relay/evaluations");
  const [{ job: id = "", questions = [] } = {}] = evaluations;
  const [{ question: asked = "" } = {}] = questions;
  const answers = await view(views.AnswersView, `/runs/relay/evaluations/${id}?question=${asked}`);
  expect(answers.question).toMatchObject({ id: asked, prompt: prompts[asked] });
});

test("a trajectory has one text per recorded token; joined, they contain the prompt and every turn", async () => {
  const tokens = await view(views.TokenView, "/runs/relay/steps/1/0/1/tokens");
  const { read } = await openSource("relay");
  const address = { run: "relay", phase: "train", step: 1, group: 0, rollout: 1 };
  const outcome = await read((store) => readOutcome(store, address));
  if (outcome?.status !== "finished" || !("tokens" in outcome.trajectory)) return expect.fail();
  const { trajectory, conversation } = outcome;
  expect(tokens.tokens).toHaveLength(trajectory.tokens.length);
  expect(tokens.logProbs).toEqual(trajectory.logProbs);
  expect(tokens.tokens.join("")).toContain(conversation.prompt);
  const sampled = tokens.actions.map(([start, end]) => tokens.tokens.slice(start, end).join("")).join("");
  for (const { text } of conversation.turns) expect(sampled).toContain(text);
});

test("the trainer's log-probs are stored for the main agent's trajectories with a nonzero advantage, and for no others of its trajectories", async () => {
  const { groups: rows } = await view(views.StepView, "/runs/relay/steps/1");
  let stored = 0;
  for (const { group, rollouts } of rows) {
    for (const { rollout, advantage } of rollouts) {
      const path = `/runs/relay/steps/1/${group}/${rollout}/tokens`;
      const { logProbs, trained } = await view(views.TokenView, path);
      expect(trained?.logProbs.length, path).toBe(advantage === 0 ? undefined : logProbs.length);
      if (trained) stored++;
    }
  }
  expect(stored).toBeGreaterThan(0);
});

test("a rollout's tree shows how long turns, tool calls and delegations took; the step's summary counts turns by kind of call", async () => {
  const { tree } = await view(views.RolloutView, "/runs/relay/steps/1/0/1");
  const timed = (one: views.Tree): string[] => [
    ...one.tags.filter(({ text }) => / s$/.test(text)).map(({ text }) => `${one.title}: ${text}`),
    ...one.children.flatMap(timed),
  ];
  const times = timed(tree).join("; ");
  expect(times).toMatch(/turn 1: sampled in \d+\.\d\d s/);
  expect(times).toMatch(/delegate → searcher: \d+\.\d\d s/);
  expect(times).toMatch(/lookup: \d+\.\d\d s/);
  const { perStep } = await view(views.RunView, "/runs/relay");
  const { turns } = perStep[1]?.workers["main"] ?? {};
  expect(turns?.turns).toBeGreaterThan(0);
  expect(turns?.delegations.turns).toBeGreaterThan(0);
  expect(turns?.tools.turns).toBe(0);
});

test("the timeline of a step spans all sampling and training of its workers; that of a step that does not exist is empty", async () => {
  const { seconds, workers } = await view(TimelineView, "/runs/relay/steps/1/timeline");
  expect(seconds).toBeGreaterThan(0);
  expect(workers.map(({ agent }) => agent).slice(0, 2)).toEqual(["main", "searcher"]);
  const spans = workers.flatMap(({ sampling, training }) => [...sampling, ...training]);
  expect(Math.min(...spans.map(([from]) => from))).toBe(0);
  expect(Math.max(...spans.map(([, to]) => to))).toBe(seconds);
  for (const [from, to] of spans) expect(to).toBeGreaterThanOrEqual(from);
  expect(await view(TimelineView, "/runs/relay/steps/7/timeline")).toEqual({ seconds: 0, workers: [] });
});

test.each([
  ["/runs/nothing", "no run 'nothing'"],
  ["/runs/..%2f..", "invalid run name"],
  ["/runs/..%2f../events", "invalid run name"],
  ["/runs/relay/steps/2", "has not begun step 2"],
  ["/runs/relay/steps/1/99", "no group 99"],
  ["/runs/relay/steps/1/0/99", "has rollouts 0 to 1"],
  ["/runs/relay/steps/1/0/1/tokens?trajectory=main/7", "no tokens of 'main/7'"],
  [`/runs/${RUN}/steps/0/0/0/tokens`, "its tokenizer is unknown"],
  ["/runs/relay/evaluations/none", "no evaluation 'none'"],
  ["/runs/relay/evaluations/none?question=%00", "no evaluation 'none'"],
  ["/nothing", "no such view"],
])("%s is a 404 with a Failure", async (path, message) => {
  const response = await get(`/api${path}`);
  expect(response.status).toBe(404);
  expect(views.Failure.parse(await response.json())).toMatchObject({
    code: "not-found",
    message: expect.stringContaining(message),
  });
});

test("case studies show rollouts before and after training; without a suite to take them from, a 404 says so", async () => {
  expect(await view(views.EvaluationsView, "/runs/relay/evaluations")).toMatchObject({ hasCases: true });
  const { trees } = await view(views.CasesView, "/runs/relay/cases");
  const pairs = trees.flatMap(({ children }) => children);
  expect(pairs.length).toBeGreaterThan(0);
  for (const { children } of pairs)
    expect(children.map(({ title }) => title)).toEqual(["before training", "after training"]);
  const none = await get(`/api/runs/${RUN}/cases`);
  expect(none.status).toBe(404);
  expect(views.Failure.parse(await none.json()).message).toContain("no open-book suite of held-out questions");
});

test("a search of a step finds only conversations that contain the text, ignoring case", async () => {
  const texts = await view(views.SearchView, "/runs/relay/steps/1/search?text=WHAT%20FOLLOWS");
  expect(texts.hits.length).toBeGreaterThan(0);
  expect(texts.hits.every(({ excerpt }) => /what follows/i.test(excerpt))).toBe(true);
  expect(await view(views.SearchView, "/runs/relay/steps/1/search?text=xyzzy")).toEqual({ hits: [], next: null });
});

test("concurrent reads of a finished run succeed", async () => {
  const paths = [
    "/steps/0",
    "/steps/1",
    "/steps/1/0",
    "/steps/1/search?text=what",
    "/evaluations",
    "/steps/1/0/1/tokens",
  ];
  const responses = await Promise.all([...paths, ...paths].map((path) => get(`/api/runs/relay${path}`)));
  expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200));
});

test("evaluations are in the order of their suites in the config, then by team", async () => {
  const { evaluations } = await view(views.EvaluationsView, `/runs/${RUN}/evaluations`);
  expect(evaluations.map(({ suite, team }) => `${suite} ${team}`)).toEqual([
    "secret 1",
    "sampled 0",
    "sampled 1",
    "greedy 0",
    "greedy 1",
    "skipping 1",
  ]);
});

test("a question's answers are its own, even if the benchmark's first questions are skipped; a skipped question is a 404", async () => {
  const { trees, question: shown } = await view(views.AnswersView, `/runs/${RUN}/evaluations/skipping-1?question=q4`);
  expect(shown.id).toBe("q4");
  expect(new Set(JSON.stringify(trees).match(/outcome \d/g))).toEqual(new Set(["outcome 0"]));
  const skipped = await get(`/api/runs/${RUN}/evaluations/skipping-1?question=q3`);
  expect(skipped.status).toBe(404);
  expect(views.Failure.parse(await skipped.json()).message).toContain("choose one from its list");
});

test("neither the questions of an encrypted benchmark nor their answers are ever sent", async () => {
  const { evaluations, prompts } = await view(views.EvaluationsView, `/runs/${RUN}/evaluations`);
  expect(evaluations.find(({ suite }) => suite === "secret")?.questions).toEqual(SCORES);
  expect(prompts).toEqual({ q4: question("q4").prompt });
  const path = `/api/runs/${RUN}/evaluations/secret-1?question=q9`;
  const refused = await get(path);
  expect(refused.status).toBe(404);
  const sent = await Promise.all(["/runs", `/runs/${RUN}`, `/runs/${RUN}/evaluations`].map((one) => get(`/api${one}`)));
  const texts = await Promise.all([refused, ...sent].map((response) => response.text()));
  const hidden = [SECRET, "Tagus", CANARY, encrypt(SECRET, CANARY)];
  for (const text of texts) for (const one of hidden) expect(text).not.toContain(one);
});

test("the stream of events begins with a pulse, and tells proxies not to buffer it", async () => {
  const response = await get("/api/runs/relay/events");
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  expect(response.headers.get("x-accel-buffering")).toBe("no");
  const reader = response.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  const [, data = ""] = /^event: pulse\ndata: (.*)$/m.exec(new TextDecoder().decode(value)) ?? [];
  expect(views.RunPulse.parse(JSON.parse(data))).toMatchObject({ state: "finished", step: 2, workers: [] });
  expect(reports).toEqual([]);
});

test("only the link's key, which becomes a cookie, opens the dashboard, and only under its own host name", async () => {
  for (const path of ["/", "/api/runs", "/main.js", "/api/runs/relay/events"]) {
    expect((await get(path, {})).status).toBe(401);
    expect((await get(path, { cookie: "mgrpo-ui-4711=another-key" })).status).toBe(401);
    expect((await get(`${path}?key=another-key`, {})).status).toBe(401);
    expect((await app.request(`http://evil.example:4711${path}`, { headers: { cookie } })).status).toBe(421);
  }
  const opened = await get(`/runs/relay?x=1&key=${KEY}`, {});
  expect([opened.status, opened.headers.get("location")]).toEqual([302, "/runs/relay?x=1"]);
  expect(opened.headers.get("set-cookie")).toMatch(new RegExp(`^${cookie};.*HttpOnly.*SameSite=Lax`));
});

test("a host is recognized however its name is written, and no other is", async () => {
  const named = dashboardApp({ key: KEY, hosts: ["MyBox.local", "0:0:0:0:0:0:0:1"], watcher });
  for (const host of ["mybox.local", "MYBOX.local", "[::1]"])
    expect((await named.request(`http://${host}:4711/`)).status, host).toBe(401);
  expect((await named.request("http://otherbox.local:4711/")).status).toBe(421);
});

test("a host name that is invalid in a URL is ignored: the other names still work", async () => {
  const unnamed = dashboardApp({ key: KEY, hosts: ["not a name", "localhost"], watcher });
  expect((await unnamed.request("http://localhost:4711/")).status).toBe(401);
});

test("the page is under 300 KB compressed, and runs no script but its own", async () => {
  const sizes = await Promise.all(
    ["/", "/main.js", "/style.css"].map(async (path) => {
      const response = await get(path, { cookie, "accept-encoding": "gzip" });
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(response.headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self'");
      return (await response.arrayBuffer()).byteLength;
    }),
  );
  expect(sizes.reduce((sum, one) => sum + one, 0)).toBeLessThan(300_000);
});
