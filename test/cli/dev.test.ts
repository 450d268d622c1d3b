/** @file `mgrpo dev`: what a step would train on from one question, and what is wrong with an app. Other warnings: dev-warnings.test.ts. */
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { agentShares } from "../../cli/dev/shares.ts";
import { shareText, warningLines } from "../../cli/dev.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { AgentBatch, GroupRecord } from "../../core/contracts/records.ts";
import type { Outcome } from "../../core/contracts/rollout.ts";
import { chdirToProject, mgrpo, parsedLines, RELAY, RELAY_MODELS, relaySettings, startMgrpo } from "./command-line.ts";
import { printedJson } from "./printed.ts";
import { config } from "./records.ts";

const folder = chdirToProject();
const models = relaySettings();
const withApp = [...models, "--set", "runner=recipe", "--set", "agents.searcher.tools=[]"];

const dev = (recipe: string, ...more: string[]) => printedJson("dev", recipe, "--question", "train-amber", ...more);
const linesOf = (lines: readonly Record<string, unknown>[], kind: string) =>
  lines.filter((line) => line["kind"] === kind);
const warningsOf = (lines: readonly Record<string, unknown>[]) =>
  linesOf(lines, "warning").map(({ warning }) => warning);

/** The relay with an app of its own. `body`: what it does with `question`, `agents` and `ask(name, messages, more)`. */
function recipeWith(name: string, body: string): string {
  const recipe = join(folder, name);
  mkdirSync(recipe);
  for (const part of ["recipe", "rewards", "tools"]) {
    writeFileSync(join(recipe, `${part}.mjs`), `export * from ${JSON.stringify(join(RELAY, `${part}.js`))};\n`);
  }
  const app = JSON.stringify(join(RELAY, "app.js"));
  const ask = "const ask = (name, messages, more) => complete(agents[name], { messages, ...more });";
  writeFileSync(
    join(recipe, "rollout.mjs"),
    `import { complete } from ${app};\nexport const rollout = async ({ question, agents }) => { ${ask}\n${body} };\n`,
  );
  return recipe;
}

test("dev shows each agent's share of the group, natively and through the app", async () => {
  // Nothing is tracked, so trackers need no addresses, and `trackContent` needs no tracker that accepts content.
  const tracked = [...models, "--set", 'track=["mlflow","otlp"]', "--set", "trackContent=true"];
  for (const settings of [tracked, withApp]) {
    const lines = await dev(RELAY, ...settings, "--rollouts", "6");
    const rollouts = linesOf(lines, "rollout");
    expect(rollouts).toHaveLength(6);
    const [main = expect.fail(), searcher = expect.fail()] = linesOf(lines, "agent");
    expect(main).toMatchObject({ agent: "main", trained: true, branches: 6 });
    expect(main["rewards"]).toEqual(rollouts.map(({ reward }) => reward));
    const advantages = main["advantages"] as number[];
    expect(advantages.reduce((total, one) => total + one, 0)).toBeCloseTo(0, 4);
    expect(main["trainedTokens"]).toBe(main["sampledTokens"]);
    expect(searcher["branches"]).toBe(rollouts.reduce((total, { invocations }) => total + Number(invocations), 0));
    expect(warningsOf(lines).filter((one) => /never|no variance/.test(String(one)))).toEqual([]);
  }
});

test("more concurrent rollouts than the default limit of listeners cause no warning of a leak", async () => {
  const ended = await mgrpo(folder, "dev", RELAY, "--question", "train-amber", ...models, "--rollouts", "12");
  expect(ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining("MaxListeners") });
});

test("every printed rollout has the recipe's note on the question", async () => {
  const recipe = recipeWith("noting", 'return { answer: "amber" };');
  const relay = JSON.stringify(join(RELAY, "recipe.js"));
  const note = '{ ...relay, note: ({ id }) => "facts of " + id + " are <shuffled>" }';
  writeFileSync(
    join(recipe, "recipe.mjs"),
    `import { recipe as relay } from ${relay};\nexport const recipe = ${note};\n`,
  );
  const rollouts = linesOf(await dev(recipe, ...withApp, "--rollouts", "2"), "rollout");
  expect(rollouts.map((line) => line["note"])).toEqual(Array(2).fill("facts of train-amber are <shuffled>"));
});

test("an app that throws: its error is shown, and warnings say that no rollout has a score", async () => {
  const recipe = recipeWith("throws", 'throw new TypeError("the app has a bug");');
  const lines = await dev(recipe, ...withApp);
  expect(linesOf(lines, "rollout")[0]).toMatchObject({ failed: expect.stringContaining("the app has a bug") });
  const warnings = warningsOf(lines);
  const lost = [0, 1, 2, 3].map(
    (rollout) => `^rollout ${rollout} is lost: .*on question 'train-amber': the app has a bug`,
  );
  expect(warnings.slice(0, 4)).toEqual(lost.map((line) => expect.stringMatching(line)));
  const [thrown, few, main] = warnings.slice(4);
  expect(thrown).toMatch(/^the app threw: TypeError: the app has a bug\n +at .*rollout\.mjs/);
  expect(few).toMatch(/^only 0 of \d+ rollouts have a score/);
  expect(main).toMatch(/^no request to 'main' was accepted/);
});

test("of an app that throws after it has called an agent, dev does not say that it never called it", async () => {
  const recipe = recipeWith(
    "late",
    'await ask("main", [{ role: "user", content: "look up x" }]); throw new Error("a bug");',
  );
  const warnings = warningsOf(await dev(recipe, ...withApp, "--rollouts", "2"));
  expect(warnings).toContainEqual(expect.stringMatching(/^rollout 0 is lost: .*: a bug/));
  expect(warnings.filter((one) => /never called|was accepted/.test(String(one)))).toEqual([]);
});

test("dev and ask name the settings of an app's requests that have no effect", async () => {
  const messages = '[{ role: "user", content: "What follows amber?" }]';
  const recipe = recipeWith(
    "own-sampling",
    `await ask("main", ${messages}, { temperature: 0, top_p: 0.5 });
    return { answer: "birch" };`,
  );
  const ignored = /^(warning: )?these settings of requests have no effect: the run's config .*: temperature, top_p$/m;
  const warnings = warningsOf(await dev(recipe, ...withApp, "--rollouts", "2"));
  expect(warnings.filter((one) => /no effect/.test(String(one)))).toEqual([expect.stringMatching(ignored)]);
  const asked = await mgrpo(folder, "ask", "amber", "--team", recipe, ...RELAY_MODELS, "--set", "runner=recipe");
  expect(asked).toMatchObject({ code: 0, stderr: expect.stringMatching(ignored) });
});

test("an agent whose context is too small for the question generates nothing, and dev says what to raise", async () => {
  const limits = ["turnTokens=4", "contextTokens=21"].flatMap((one) => ["--set", `agents.main.limits.${one}`]);
  const lines = await dev(RELAY, ...models, ...limits, "--rollouts", "2");
  expect(linesOf(lines, "agent")[0]).toMatchObject({ agent: "main", branches: 0 });
  expect(warningsOf(lines)).toContain(
    "2 answers of 'main' were cut off at the token limit: raise agents.main.limits.turnTokens (4) or contextTokens (21)",
  );
});

test("rewards that throw: dev ends with their error, and before that prints nothing but rollouts, and not all of them", async () => {
  const recipe = recipeWith("unrewarded", 'return { answer: "amber" };');
  const rewards = 'export const rewards = { correct() { throw new TypeError("no such field"); }, expert: () => 0 };\n';
  writeFileSync(join(recipe, "rewards.mjs"), rewards);
  const ended = await mgrpo(folder, "dev", recipe, ...models, "--rollouts", "8", "--set", "agents.main.engine.slots=1");
  expect(ended.code).toBe(1);
  expect(ended.stderr).toMatch(/no such field.*\[run-halted\]/);
  const shown = parsedLines(ended.stdout);
  expect(shown.length).toBeLessThan(8);
  expect(shown.map(({ kind }) => kind)).toEqual(shown.map(() => "rollout"));
});

test("if a tool's promise is rejected after its call, dev continues, and dev and ask report it", async () => {
  const recipe = recipeWith("stray", "");
  const original = JSON.stringify(join(RELAY, "tools.js"));
  const run =
    "run: (args) => { setTimeout(() => Promise.reject(new TypeError('left \\u001b alone')), 1); return lookup.run(args); }";
  writeFileSync(
    join(recipe, "tools.mjs"),
    `import { tools as relay } from ${original};\nexport * from ${original};\nconst lookup = relay.get("lookup");\n` +
      `export const tools = new Map([["lookup", { ...lookup, ${run} }]]);\n`,
  );
  const unhandled = /a promise of tool 'lookup' was rejected, and nothing handles it: TypeError: left . alone/;
  expect(warningsOf(await dev(recipe, ...models))).toContainEqual(expect.stringMatching(unhandled));
  const asked = await mgrpo(folder, "ask", "amber", "--team", recipe, ...RELAY_MODELS);
  expect(asked.stderr).toMatch(
    /^warning: a promise of tool 'lookup' was rejected, and nothing handles it: left {3}alone$/m,
  );
});

test("Ctrl-C ends dev while the rewards compute", async () => {
  const recipe = recipeWith("slow", 'return { answer: "amber" };');
  const marker = join(recipe, "scoring");
  const correct = `correct() { writeFileSync(${JSON.stringify(marker)}, ""); for (;;); }`;
  const rewards = `import { writeFileSync } from "node:fs";\nexport const rewards = { ${correct}, expert: () => 0 };\n`;
  writeFileSync(join(recipe, "rewards.mjs"), rewards);
  const started = startMgrpo(folder, "dev", recipe, ...withApp, "--rollouts", "2");
  const ended = once(started, "exit");
  await expect.poll(() => existsSync(marker)).toBe(true);
  const since = performance.now();
  started.kill("SIGINT");
  expect((await ended)[0]).toBe(130);
  // Without Ctrl-C, a verdict takes up to limits.verdictSeconds, 180.
  expect(performance.now() - since).toBeLessThan(90_000);
});

test("a judge that gives no verdict costs only the rollout that it was asked about; the others have advantages", async () => {
  const recipe = recipeWith(
    "unjudged",
    `await ask("main", [{ role: "user", content: "What follows amber?" }]);
    globalThis.unjudged = (globalThis.unjudged ?? 0) + 1;
    return { answer: globalThis.unjudged === 1 ? "odd" : "birch" };`,
  );
  const correct = '(_question, { answer }) => (answer === "odd" ? JSON.parse("no verdict") : 1)';
  const judged = `export const rewards = { judge: "scripted", correct: ${correct}, expert: () => 1 };\n`;
  writeFileSync(join(recipe, "rewards.mjs"), judged);
  const lines = await dev(recipe, ...withApp, "--rollouts", "3");
  const lost = linesOf(lines, "rollout").filter((line) => "excluded" in line);
  expect(lost).toMatchObject([{ answer: "odd", excluded: expect.stringMatching(/^judge: /) }]);
  expect(warningsOf(lines)[0]).toMatch(/^rollout \d is lost: judge: /);
  const [main] = linesOf(lines, "agent");
  expect(main?.["rewards"]).toHaveLength(2);
  expect(main?.["advantages"]).toEqual([expect.any(Number), expect.any(Number)]);
});

test("warnings name an app that gives up, rewrites history, offers tools that no agent calls, or leaves out an agent", async () => {
  const recipe = recipeWith(
    "odd",
    `const user = (content) => ({ role: "user", content });
    const tools = [{ type: "function", function: { name: "never" } }];
    await ask("main", [user("look up x")], { tools, max_tokens: 2 });
    await ask("main", [user("look up x"), { role: "assistant", content: "I never said it" }, user("?")], { tools, max_tokens: 2 });
    return { failed: "no idea" };`,
  );
  const lines = await dev(recipe, ...withApp, "--rollouts", "2");
  expect(linesOf(lines, "rollout")).toMatchObject([0, 1].map(() => ({ stop: "malformed", fault: "no idea" })));
  expect(warningsOf(lines)).toEqual([
    "rollout 0: the app gave no answer: no idea",
    "rollout 1: the app gave no answer: no idea",
    expect.stringMatching(/^no variance: all 2 rollouts have reward 0\.000/),
    expect.stringMatching(/^'main' was offered 1 tool and never called one \(malformed: no idea\): its model may not/),
    expect.stringMatching(
      /^2 requests to 'main' had a history with replies that it did not generate.* or offer different tools than before\?$/,
    ),
    expect.stringMatching(/^4 answers of 'main' were cut off at the token limit/),
    "'searcher' was never called: no rollout would train it",
  ]);
});

test("a reply of another agent in the history does not begin a branch, and the warning does not say that it does", async () => {
  const recipe = recipeWith(
    "handoff",
    `const user = (content) => ({ role: "user", content });
    const { choices } = await ask("main", [user("look up x")]);
    const handedOver = [user("look up x"), choices[0].message, { role: "assistant", content: "I am the searcher" }];
    await ask("main", [...handedOver, user("go on")]);
    return { answer: "birch" };`,
  );
  const lines = await dev(recipe, ...withApp, "--rollouts", "2");
  const counts = { main: { branches: 1, rewritten: 1 } };
  expect(linesOf(lines, "rollout")).toMatchObject([{ counts }, { counts }]);
  const [warning = ""] = warningsOf(lines)
    .map(String)
    .filter((one) => /did not generate/.test(one));
  expect(warning).toMatch(/^2 requests to 'main' .* which are not trained on: does another agent write them, or does/);
});

test("the user's own training questions are enough: no suite needs held-out ones, since nothing is evaluated", async () => {
  const own = { id: "own", prompt: "What follows amber?", answer: "birch" };
  writeFileSync(join(folder, "own.jsonl"), `${JSON.stringify(own)}\n`);
  const settings = [...relaySettings({ name: "sampled" }), "--set", "questions.train=own.jsonl", "--rollouts", "2"];
  const rollouts = linesOf(await printedJson("dev", RELAY, ...settings), "rollout");
  expect(rollouts.map(({ question }) => question)).toEqual(["jsonl:own", "jsonl:own"]);
});

test("an unknown question, too few rollouts, and their number as a setting are refused", async () => {
  await expect(printedJson("dev", RELAY, ...models, "--question", "train-ambr")).rejects.toThrow(
    "did you mean 'train-amber'?",
  );
  await expect(printedJson("dev", RELAY, ...models, "--rollouts", "1")).rejects.toThrow("rolloutsPerQuestion");
  await expect(printedJson("dev", RELAY, ...models, "--set", "rolloutsPerQuestion=8")).rejects.toThrow(
    "give the number of rollouts as --rollouts 8",
  );
});

test("an agent's share of the group is one line of text", () => {
  const share = { agent: "main", trained: true, branches: 1, sampledTokens: 9, trainedTokens: 9 };
  expect(shareText({ ...share, rewards: [0.1, 1], advantages: [-1, null] })).toBe(
    "1 branch, 9 sampled tokens; rewards 0.100 1.000; advantages -1.00 dropped; 9 tokens trained",
  );
  expect(shareText({ ...share, trained: false, rewards: [], advantages: [] })).toBe(
    "1 branch, 9 sampled tokens; frozen",
  );
});

test("each frame of a stack trace keeps a line of its own in the terminal, without control characters", () => {
  const lines = warningLines("the app threw: TypeError: a bug\u001b[2J\n    at rollout (rollout.mjs:2:7)");
  expect(lines.map((line) => stripVTControlCharacters(line))).toEqual([
    "  warning: the app threw: TypeError: a bug [2J",
    "        at rollout (rollout.mjs:2:7)",
  ]);
});

test("with zero advantages, an entropy bonus trains tokens in the first step unless its schedule begins at 0", () => {
  const score = { reward: 0.5, correct: 0, wellFormed: true, tokens: 3, invocations: {} };
  const main: AgentBatch = {
    ...{ trajectories: [0, 1], weights: [0.5], advantages: [0, 0], mean: 0.5, std: 0 },
    ...{ duplicated: 0, dropped: 0 },
  };
  const group = { rollouts: { "0": score, "1": score }, finalized: { main } } as unknown as GroupRecord;
  const outcome = { status: "finished", trajectory: { logProbs: [-1, -1, -1] } } as unknown as Outcome;
  const rollouts = [0, 1].map(() => ({ outcome, invocations: new Map() }));
  const trainedFrom = (start: number) => {
    const run = RunConfig.parse({ ...config, algorithm: { entropy: { start, end: 0.1 } } });
    return agentShares(run, { group, rollouts })[0]?.trainedTokens;
  };
  expect([0, 0.01].map(trainedFrom)).toEqual([0, 6]);
});
