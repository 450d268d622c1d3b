/** @file Resolving a run's config: arms, settings in order, and refusals that say what to write. */
import { expect, test } from "vitest";
import type { Recipe } from "../../../core/recipe.ts";
import { differences } from "../../../core/training/differences.ts";
import { chosenBy, policiesOf, resolveConfig } from "../../../core/training/resolve-config.ts";
import { recipe as gazetteer } from "../../../recipes/gazetteer/recipe.ts";

const recipe: Recipe = {
  name: "tiny",
  config: () => ({
    steps: 4,
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s" } },
  }),
  questions: () => ({ train: [], heldOut: [] }),
};
const single = { name: "alone", config: { steps: 1, agents: { main: { model: "m" } } } };
const choice = { run: "r", seed: 3, arm: "mgrpo" } as const;

/** The error of a config that is refused. */
const refusal = (message: string | RegExp) =>
  expect.objectContaining({
    code: "config-invalid",
    message: typeof message === "string" ? expect.stringContaining(message) : expect.stringMatching(message),
  });

test("defaults are filled in; settings reach any depth; the last one wins; text needs no quotes", () => {
  const set = [
    "algorithm.alignment.mode=none",
    "steps=9",
    "steps=7",
    "agents.main.system=a=b",
    'curriculum=[{"fromStep":0,"levels":[2]}]',
  ];
  const config = resolveConfig(recipe, { ...choice, set });
  expect(config).toMatchObject({ run: "r", recipe: "tiny", seed: 3, steps: 7, rolloutsPerQuestion: 8 });
  expect(config.algorithm.alignment).toEqual({ mode: "none", d: 2 });
  expect(config.agents["main"]?.system).toBe("a=b");
  expect(config.curriculum).toEqual([{ fromStep: 0, levels: [2] }]);
});

test("a setting of one agent leaves the others as they are, even if the recipe gives all of them the same object", () => {
  const shared = { optimizer: { learningRate: 3e-4 }, engine: { threads: 1 } };
  const agents = { main: { model: "m", delegates: ["searcher"], ...shared }, searcher: { model: "s", ...shared } };
  const set = ["agents.main.optimizer.learningRate=1e-5", "agents.main.engine.threads=2"];
  const resolved = resolveConfig({ name: "tiny", config: { steps: 4, agents } }, { ...choice, set });
  expect(resolved.agents).toMatchObject({
    main: { optimizer: { learningRate: 1e-5 }, engine: { threads: 2 } },
    searcher: { optimizer: { learningRate: 3e-4 }, engine: { threads: 1 } },
  });
});

test.each([
  ["arm=main-only", "'arm' cannot be set: use --arm if this command has it"],
  ["seed=9", "'seed' cannot be set: use --seed if this command has it"],
  ["run=other", "'run' cannot be set: use --run if this command has it"],
  ["recipe=atlas", "'recipe' cannot be set: name it in the command itself"],
])("--set refuses what the command itself takes: %s", (setting, fault) => {
  expect(() => resolveConfig(recipe, { ...choice, set: ["steps=2", setting] })).toThrow(
    refusal(`--set ${setting}: ${fault}`),
  );
});

test("an invalid name of a run or an agent is refused with the reason", () => {
  expect(() => resolveConfig(recipe, { ...choice, run: ".r" })).toThrow(
    "run: 1 to 63 letters, digits, '.', '_' or '-', the first a letter or digit",
  );
  const agents = { main: { model: "m" }, webSearcher: { model: "s" } };
  const named: Recipe = { ...recipe, config: () => ({ steps: 4, agents }) };
  expect(() => resolveConfig(named, choice)).toThrow(
    "agents.webSearcher: 1 to 31 lower-case letters, digits or '-', the first a letter",
  );
  const inherited: Recipe = {
    ...recipe,
    config: () => ({ steps: 4, agents: { main: { model: "m" }, constructor: { model: "s" } } }),
  };
  expect(() => resolveConfig(inherited, choice)).toThrow("agents.constructor: an agent cannot have this name");
});

test("main-only freezes only the sub-agents; a setting may unfreeze one", () => {
  const frozen = resolveConfig(recipe, { ...choice, arm: "main-only" });
  expect(Object.entries(frozen.agents).map(([name, { trained }]) => [name, trained])).toEqual([
    ["main", true],
    ["searcher", false],
  ]);
  const thawed = resolveConfig(recipe, { ...choice, arm: "main-only", set: ["agents.searcher.trained=true"] });
  expect(thawed.agents["searcher"]?.trained).toBe(true);
});

test.each([
  [
    ["algorithm.aligment.mode=none"],
    /config of run 'r': algorithm: Unrecognized key: "aligment" \(known keys: mainReward, subReward, alignment, /,
  ],
  [["agents.main.limits.turn=3"], /agents\.main\.limits: Unrecognized key: "turn" \(known keys: turns, turnTokens, /],
  [["agents.main.optimizer.beta=0"], /agents\.main\.optimizer: Unrecognized key: "beta" \(known keys: .*beta1, /],
  [
    ["agents.main.optimizer=server"],
    /agents\.main\.optimizer: "server" needs policy tinker:<url>, not 'compiled': write AdamW's settings/,
  ],
  [
    ["agents.main.policy=tinker:http://gpu1:8000", 'agents.main.optimizer={"kind":"server","maxGradientNorm":1}'],
    /agents\.main\.optimizer: Unrecognized key: "maxGradientNorm" \(known keys: kind, learningRate, schedule, warmupRatio\)/,
  ],
  [["stepz=3"], /config of run 'r': Unrecognized key: "stepz" \(known keys: run, recipe, seed, arm, steps, /],
  [["steps"], /^--set steps: write path=value, such as --set algorithm\.alignment\.mode=none$/],
  [["=3"], /^--set =3: write path=value/],
  [["x=3"], /Unrecognized key: "x"/],
  [["agents=null"], /config of run 'r': agents: /],
  [
    ["evaluation.suites=[{name:test}]"],
    /evaluation\.suites: .*; --set evaluation\.suites=\[\{name:test\}\]: the value is not JSON: write it as JSON, and put the setting in single quotes/,
  ],
  [
    ["agents.main.lora={rank:8}"],
    /expected object, received string; --set agents\.main\.lora=\{rank:8\}: the value is not JSON/,
  ],
  [["track=tensorboard,mlflow"], /--set track=tensorboard,mlflow: the value is not JSON.*--set 'track=…'$/],
  [["runner={url:http://127.0.0.1:1}"], /--set runner=.*the value is not JSON/],
  [["runner=recpie"], /runner: .*received string$/],
  [["steps=many"], /steps: Invalid input: expected number, received string$/],
  [["steps.count=3"], /--set steps.count=3: 'steps' is a value and has no 'count'/],
  [["steps.count.first=3"], /--set steps.count.first=3: 'steps' is a value and has no 'count'/],
  [
    ["staleness=1"],
    /staleness: at 1, 'main' and 'searcher' would train on rollouts of older versions without a correction: set algorithm\.tisCap=2, or/,
  ],
  [["staleness=2", "agents.main.algorithm.tisCap=2"], /staleness: at 2, 'searcher' would train/],
  [["staleness=1.5", "algorithm.tisCap=2"], /staleness/],
  [["__proto__.polluted=1"], /there is no setting '__proto__'/],
  [['agents.main.__proto__={"polluted":1}'], /there is no setting '__proto__'/],
])("refused: --set %s", (set, message) => {
  expect(() => resolveConfig(recipe, { ...choice, set })).toThrow(refusal(message));
  expect(({} as { polluted?: number }).polluted).toBeUndefined();
});

test.each([
  [
    "evaluation.suites.test.closedBook=true",
    "evaluation.suites is a list: write an index, such as evaluation.suites.0,",
  ],
  ["agents.main.tools.x=1", "agents.main.tools is a list: write an index, such as agents.main.tools.0,"],
  ["evaluation.suites.-1.closedBook=true", "in place of '-1'"],
  ["agents.main.tools.00=visit", "in place of '00'"],
  ["evaluation.suites.7.closedBook=true", "in place of '7'; the next free one is 3"],
])("a list is set as a whole or by index: --set %s is refused", (setting, message) => {
  expect(() => resolveConfig(gazetteer, { ...choice, set: [setting] })).toThrow(refusal(message));
  const { evaluation, agents } = resolveConfig(gazetteer, {
    ...choice,
    set: ["evaluation.suites.0.closedBook=true", "agents.main.tools.0=visit", "agents.main.tools.1=browse"],
  });
  expect(evaluation.suites.map(({ closedBook }) => closedBook)).toEqual([true, false, true]);
  expect(agents["main"]?.tools).toEqual(["visit", "browse"]);
});

test.each([
  ["algorithm.tisCap=2"],
  ['algorithm.ratioMask={"low":0.5,"high":2}'],
  ["agents.main.algorithm.tisCap=2", 'agents.searcher.algorithm.ratioMask={"low":0.5,"high":2}'],
  ["agents.main.algorithm.tisCap=2", "agents.searcher.trained=false"],
])("staleness is accepted with a correction for each trained agent: %s %s", (...set) => {
  expect(resolveConfig(recipe, { ...choice, set: ["staleness=1", ...set] }).staleness).toBe(1);
});

test("server is short for the server's optimizer at the default learning rate", () => {
  const optimizerOf = (optimizer: string) => {
    const set = ["agents.main.policy=tinker:http://gpu1:8000", `agents.main.optimizer=${optimizer}`];
    return resolveConfig(recipe, { ...choice, set }).agents["main"]?.optimizer;
  };
  expect(optimizerOf("server")).toEqual({ kind: "server", learningRate: 4e-5, schedule: "linear", warmupRatio: 0 });
  expect(optimizerOf('{"kind":"server","learningRate":1e-5}')).toMatchObject({ kind: "server", learningRate: 1e-5 });
});

test("single-agent needs a recipe with one agent; an unknown arm is refused", () => {
  const unknown = { ...choice, arm: "single" as "mgrpo" };
  expect(() => resolveConfig(single, unknown)).toThrow(refusal(/^config of run 'r': arm: .*single-agent/));
  const alone = resolveConfig(single, { ...choice, arm: "single-agent" });
  expect(Object.keys(alone.agents)).toEqual(["main"]);
  expect(() => resolveConfig(recipe, { ...choice, arm: "single-agent" })).toThrow(
    refusal(
      "arm single-agent: the recipe gives 2 agents (main, searcher), not one: leave the arm out, or have config(arm) give one agent with all tools",
    ),
  );
});

test("a recipe whose team is under a mistyped key is refused like any other unknown key", () => {
  const mistyped = { name: "tiny", config: { steps: 4, agent: { main: { model: "m" } } } } as unknown as Recipe;
  expect(() => resolveConfig(mistyped, choice)).toThrow(
    refusal(/config of run 'r': .*agents: .*Unrecognized key: "agent"/),
  );
  // A comparison with --from calls policiesOf on a config that is not yet checked.
  const empty = { name: "tiny", config: () => undefined } as unknown as Recipe;
  for (const given of [mistyped, empty]) expect(policiesOf(given, "mgrpo")).toEqual([]);
  expect(policiesOf(recipe, "mgrpo", ["agents=null"])).toEqual([]);
});

test("a tool in place of its name is refused", () => {
  const tools = [{ name: "search", run: () => "" }];
  const withTool = { name: "tiny", config: { steps: 4, agents: { main: { model: "m", tools } } } } as unknown as Recipe;
  expect(() => resolveConfig(withTool, choice)).toThrow(
    expect.objectContaining({
      code: "config-invalid",
      message: "the recipe's config has a value that is not JSON: a tool, for instance, is given by its name",
      cause: expect.objectContaining({ name: "DataCloneError" }),
    }),
  );
});

test("shared-policy gives every sub-agent the main agent's policy, whose settings apply to all of them", () => {
  const one = resolveConfig(gazetteer, { ...choice, arm: "shared-policy", set: ["agents.main.model=warm/main"] });
  expect(one.agents["searcher"]).toMatchObject({ policy: "of:main", model: "warm/main", tools: ["search", "visit"] });
  expect(policiesOf(gazetteer, "shared-policy")).toEqual(["main"]);
  expect(policiesOf(gazetteer, "mgrpo")).toEqual(["main", "searcher"]);
  // A stored config repeats the settings of the policy.
  const stored = { name: "gazetteer", config: one };
  const again = resolveConfig(stored, { ...choice, arm: "mgrpo", set: ["agents.main.engine.slots=8"] });
  expect(again.agents["searcher"]).toMatchObject({ policy: "of:main", engine: { slots: 8 } });
  expect(() => resolveConfig(recipe, { ...choice, arm: "shared-policy", set: ["agents.searcher.lora={}"] })).toThrow(
    /agents\.searcher\.lora: differs from that of 'main'/,
  );
  expect(() => resolveConfig(single, { ...choice, arm: "shared-policy" })).toThrow(
    refusal("arm shared-policy: the recipe has one agent, 'main', and no other to share with: leave the arm out"),
  );
});

test("--set may give an agent another's policy, with its settings; different settings and unknown agents are refused", () => {
  const set = ["agents.main.model=warm/main", "agents.main.engine.slots=8", "agents.searcher.policy=of:main"];
  const { agents } = resolveConfig(gazetteer, { ...choice, set });
  expect(agents["searcher"]).toMatchObject({ policy: "of:main", model: "warm/main", engine: { slots: 8 } });
  expect(() => resolveConfig(recipe, { ...choice, set: ["agents.searcher.policy=of:main"] })).toThrow(
    /agents\.searcher\.model: differs from that of 'main'/,
  );
  expect(() => resolveConfig(recipe, { ...choice, set: ["agents.sercher.policy=of:main"] })).toThrow(
    expect.objectContaining({
      code: "config-invalid",
      message: "--set agents.sercher.policy=of:main: there is no agent 'sercher': the agents are main, searcher",
      unknownNames: [{ unknown: "sercher", known: ["main", "searcher"] }],
    }),
  );
});

test("a setting may add the main agent, and agents to which others delegate", () => {
  const planner = 'agents.planner={"model":"p","delegates":["searcher","main","reader"]}';
  const set = ["main=planner", planner, "agents.main.delegates=[]", "agents.reader.model=r"];
  expect(Object.keys(resolveConfig(recipe, { ...choice, set }).agents)).toEqual([
    ...["main", "searcher", "planner", "reader"],
  ]);
});

test("a value may look like a setting of an agent", () => {
  const runner = "runner.url=https://agents.acme.com/";
  expect(resolveConfig(recipe, { ...choice, set: [runner] }).runner).toMatchObject({ url: "https://agents.acme.com/" });
  const model = "sweep/agents.main.policy=compiled/main";
  const { agents } = resolveConfig(gazetteer, {
    ...choice,
    set: ["agents.searcher.policy=of:main", `agents.main.model=${model}`],
  });
  expect(agents["searcher"]?.model).toBe(model);
});

test("a recipe's config may depend on what the user sets; what the user does not set is undefined", () => {
  const byModel: Recipe = {
    ...recipe,
    config: (_arm, chosen) => ({ steps: chosen("agents.main.model") === "big" ? 2 : 4, agents: single.config.agents }),
  };
  expect(resolveConfig(byModel, choice).steps).toBe(4);
  expect(resolveConfig(byModel, { ...choice, set: ["agents.main.model=big"] }).steps).toBe(2);
  const chosen = chosenBy(["agents.main.model=big", "agents.main.lora=null"]);
  expect(chosen("agents.main")).toEqual({ model: "big", lora: null });
  for (const path of [
    "steps.count",
    "agents.searcher.model",
    "agents.main.lora.rank",
    "agents.main.model.length",
    "constructor",
  ])
    expect(chosen(path), path).toBeUndefined();
});

test.each<[string[], string]>([
  [["agents.searcher.policy=of:searcher"], "agents.searcher.policy: an agent cannot share its own policy"],
  [
    ["agents.main.policy=of:searcher", "agents.searcher.policy=of:main"],
    "agents.main.policy: 'searcher' has no policy of its own, but that of 'main'",
  ],
])("a policy that cannot be shared is refused as such, not for the settings it would inherit: %j", (set, message) => {
  expect(() => resolveConfig(gazetteer, { ...choice, set })).toThrow(message);
});

test("ablations and the control differ from the method in one setting", () => {
  const { arm: _own, ...method } = resolveConfig(recipe, choice);
  const changed = (arm: "no-alignment" | "weighted-alignment" | "shuffled-advantages") => {
    const { arm: _other, ...config } = resolveConfig(recipe, { ...choice, arm });
    return differences(config, method);
  };
  expect(changed("no-alignment")).toEqual(['algorithm.alignment.mode: "resample" (stored), "none" (requested)']);
  expect(changed("weighted-alignment")).toEqual([
    'algorithm.alignment.mode: "resample" (stored), "weighted" (requested)',
  ]);
  expect(changed("shuffled-advantages")).toEqual(["algorithm.shuffleAdvantages: false (stored), true (requested)"]);
});
