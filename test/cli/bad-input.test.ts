/** @file Bad input: a short error without a stack trace says what is wrong; no run folder is left behind. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommanderError } from "commander";
import { expect, test, vi } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import { describe } from "../../cli/terminal/fail.ts";
import { boundReason } from "../../core/contracts/bounds.ts";
import { MgrpoError } from "../../core/errors.ts";
import { chdirToProject, RELAY, trainRelay } from "./command-line.ts";

const folder = chdirToProject();

const compiled = ["--set", "agents.main.policy=compiled"];
const UNTRAINED = ["--set", "agents.main.trained=false", "--set", "agents.searcher.trained=false"];
const TABLE: [what: string, args: string[], line: RegExp][] = [
  [
    "an unknown config key",
    trainRelay("bad", "--set", "algorithm.clipHi=0.3"),
    /config of run 'bad': algorithm: .*clipHi.*did you mean 'clipHigh'\?/,
  ],
  [
    "a mistyped value",
    trainRelay("bad", "--set", "algorithm.ratio=sequense"),
    /algorithm\.ratio: .*"token"\|"sequence".*did you mean 'sequence'\?/,
  ],
  [
    "a mistyped agent",
    trainRelay("bad", "--set", "agents.seacher.trained=false"),
    /--set agents\.seacher\.trained=false: there is no agent 'seacher': the agents are main, searcher; did you mean 'searcher'\?/,
  ],
  ["a value out of range", trainRelay("bad", "--set", "rolloutsPerQuestion=1"), /rolloutsPerQuestion/],
  ["a malformed --set", trainRelay("bad", "--set", "steps"), /--set steps: write path=value/],
  ["steps that are not a number", ["train", RELAY, "--steps", "many"], /--steps takes a whole number/],
  ["a port out of range", ["ui", "--port", "99999"], /--port takes a port, at most 65535/],
  ["a file where a folder is expected", ["serve", "models/main/config.json"], /give a run's name, or a folder/],
  [
    "an address where the page's file is expected",
    ["show", "r", "--html", "1/0"],
    /1\/0 is an address: write it before --html/,
  ],
  ["case studies where the page's file is expected", ["show", "r", "--html", "cases"], /cases is an address/],
  ["an unknown recipe", ["train", "atlantis"], /recipe 'atlantis' does not exist: .*atlas/],
  ["a mistyped recipe", ["train", "recipes/atals"], /did you mean 'atlas'\?/],
  ["a mistyped command", ["tarin"], /Did you mean train\?\)\n\(.+ --help lists the commands\)/],
  [
    "a mistyped option",
    ["train", "atlas", "--step", "1"],
    /Did you mean --steps\?\)\n\(.+ train --help lists the arguments and options\)/,
  ],
  ["a tracker that does not exist", ["track", "r", "--to", "mlfow"], /expected one of "tensorboard"\|"mlflow"\|"otlp"/],
  [
    "a tracker without a client",
    ["track", "r", "--to", "mlflow, wandb"],
    /'mlflow, wandb' is invalid\. wandb has no maintained/,
  ],
  ["a mistyped command of a group", ["judge", "chek"], /\(.+ judge --help lists the commands\)/],
  ["a mistyped arm", ["train", RELAY, "--arm", "mgrop"], /did you mean 'mgrpo'\?/],
  ["a mistyped arm of a comparison", ["compare", RELAY, "--arms", "main-olny"], /did you mean 'main-only'\?/],
  ["a mistyped benchmark", ["bench", "stores"], /did you mean 'store'\?/],
  ["an unknown arm", ["train", RELAY, "--arm", "solo"], /mgrpo, main-only, single-agent/],
  [
    "an engine that is not installed",
    ["train", "atlas", "--set", "agents.main.policy=eager-gpu"],
    /'eager-gpu' needs @tensorflow\/tfjs-node-gpu, which is not installed: npm install/,
  ],
  [
    "a GPU for an engine that cannot use one",
    trainRelay("bad", "--set", "agents.searcher.engine.provider=webgpu"),
    /agents\.searcher\.engine\.provider: does nothing with policy 'recipe:relay': remove it/,
  ],
  [
    "bf16 on a provider that does not support it",
    ["train", "atlas", "--set", "agents.main.engine.precision=bf16"],
    /agents\.main\.engine\.precision: bf16 needs engine\.provider cuda, not 'cpu'/,
  ],
  [
    "packed weights on a GPU",
    ["train", "atlas", "--set", "agents.main.engine.weightPacking=on", "--set", "agents.main.engine.provider=webgpu"],
    /agents\.main\.engine\.weightPacking: needs engine\.provider cpu, not 'webgpu'/,
  ],
  [
    "packed weights where none are frozen",
    ["train", "atlas", "--set", "agents.main.engine.weightPacking=on"],
    /agents\.main\.model: engine\.weightPacking on: only a frozen base is packed.*remove the setting/,
  ],
  [
    "a quantized base on a GPU",
    ["train", "atlas", "--set", "agents.main.engine.quantization=int4", "--set", "agents.main.engine.provider=cuda"],
    /agents\.main\.engine\.quantization: needs engine\.provider cpu, not 'cuda'/,
  ],
  [
    "a quantized base where none is frozen",
    ["train", "atlas", "--set", "agents.main.engine.quantization=int8"],
    /agents\.main\.model: engine\.quantization int8: only the base of an adapter is quantized.*set lora, or remove engine\.quantization/,
  ],
  [
    "an unknown provider",
    trainRelay("bad", "--set", "agents.main.engine.provider=rocm"),
    /"auto"\|"cpu"\|"cuda"\|"webgpu"/,
  ],
  ["an unknown policy", trainRelay("bad", "--set", "agents.main.policy=torch"), /'torch'/],
  [
    "training behind an API",
    trainRelay("bad", "--set", "agents.searcher.policy=openai:http://10.0.0.7/v1"),
    /agents\.searcher\.trained: a model behind an API \('openai:.*'\) cannot be trained: set it to false/,
  ],
  [
    "an API address that is not a URL",
    trainRelay("bad", "--set", "agents.searcher.policy=openai:gpu1", "--set", "agents.searcher.trained=false"),
    /agents\.searcher\.policy: the server's base URL, such as http/,
  ],
  [
    "Bedrock without a region",
    trainRelay("bad", "--set", "agents.searcher.policy=bedrock", "--set", "agents.searcher.trained=false"),
    /agents\.searcher\.policy: no region is given: write bedrock:<region>/,
  ],
  [
    "an API's settings for an engine",
    trainRelay("bad", "--set", "agents.searcher.endpoint.calls=text"),
    /agents\.searcher\.endpoint: does nothing with policy 'recipe:relay': remove it/,
  ],
  [
    "a team that learns nothing",
    trainRelay("bad", ...UNTRAINED),
    /no agent of this team is trained: set agents\.<name>\.trained to true/,
  ],
  [
    "supervised training of a team that learns nothing",
    ["sft", RELAY, "--to", "warm", ...UNTRAINED],
    /no agent of this team is trained: name one with --agent, or set agents\.<name>\.trained to true/,
  ],
  [
    "supervised training with a setting of M-GRPO's optimizer",
    ["sft", RELAY, "--to", "warm", "--set", "agents.main.optimizer.learningRate=1e-4"],
    /--set agents\.main\.optimizer\.learningRate=1e-4: sft does not read agents\.main\.optimizer: leave it out, and set sft's own/,
  ],
  [
    "supervised training with M-GRPO's optimizer inside an agent's settings",
    ["sft", RELAY, "--to", "warm", "--set", 'agents.main={"model":"m","optimizer":{"learningRate":1e-4}}'],
    /sft does not read agents\.main\.optimizer: leave it out, and set sft's own/,
  ],
  [
    "supervised training with a number of M-GRPO's steps",
    ["sft", RELAY, "--to", "warm", "--set", "steps=5"],
    /--set steps=5: sft does not read steps: --epochs or --tokens says how long sft trains/,
  ],
  [
    "supervised training with a budget",
    ["sft", RELAY, "--to", "warm", "--set", "budget.hours=2"],
    /--set budget\.hours=2: sft does not read budget: --epochs or --tokens says/,
  ],
  [
    "supervised training with a setting of M-GRPO's loss",
    ["sft", RELAY, "--to", "warm", "--set", "algorithm.clipHigh=0.3"],
    /--set algorithm\.clipHigh=0\.3: sft does not read algorithm: leave it out/,
  ],
  ["an empty question", ["ask", " "], /the question is empty/],
  [
    "a question to a model that is not there",
    ["ask", "why?", "--set", "agents.main.model=nowhere"],
    /agents\.main\.model: no checkpoint folder 'nowhere'/,
  ],
  ["an empty folder, as an unset variable gives it", ["import", "model.gguf", "--to", ""], /--to takes a path/],
  ["an empty folder for supervised training", ["sft", RELAY, "--to", ""], /--to takes a path/],
  ["pretraining on no tokens", ["pretrain", "atlas", "--tokens", "0"], /--tokens takes a whole number above 0/],
  [
    "a question at a temperature above the limit",
    ["ask", "why?", "--temperature", "11"],
    /takes a number from 0 to 10\b/,
  ],
  ["a server whose temperature is above the limit", ["serve", "x", "--temperature", "11"], /a number from 0 to 10\b/],
  ["an unknown tool", trainRelay("bad", "--set", 'agents.searcher.tools=["sextant"]'), /'sextant'/],
  ["stale rollouts without a correction", trainRelay("bad", "--set", "staleness=1"), /set algorithm\.tisCap=2/],
  ["a run name that is not a path segment", trainRelay("a/b"), /run: 1 to 63 letters/],
  [
    "a model folder that is not there",
    trainRelay("bad", "--set", "agents.main.model=nowhere"),
    /agents\.main\.model: no checkpoint folder 'nowhere'/,
  ],
  ["a checkpoint without config.json", trainRelay("bad", ...compiled), /config\.json is missing: agent 'main'/],
  ["an unknown run", ["resume", "nobody"], /no run 'nobody'/],
  ["a budget of zero hours", ["resume", "nobody", "--budget-hours", "0"], /--budget-hours takes a number above 0/],
  ["dollars without a price", trainRelay("bad", "--set", "budget.usd=5"), /budget\.usd needs a price for every worker/],
  [
    "greedy runs that would all be the same",
    trainRelay("bad", "--set", "evaluation.suites.1.runs=3"),
    /evaluation\.suites\.1\.runs: greedy runs would all be the same: set runs to 1/,
  ],
  [
    "a stage without training questions",
    trainRelay("bad", "--set", 'curriculum=[{"from":0,"levels":[1]},{"from":0.5,"levels":[2]}]'),
    /curriculum\.1\.levels: no training question has level 2; there are only levels 1/,
  ],
  ["a record of an unknown run", ["show", "nobody", "x"], /no run 'nobody'/],
  [
    "an unknown benchmark",
    ["bench", "speed"],
    /no benchmark 'speed': name one of engine, rollouts, .*, store, .*bundles, run/,
  ],
  ["a comparison of an unknown arm", ["compare", RELAY, "--arms", "solo"], /--arms solo: there is no arm 'solo'/],
  [
    "a comparison without seeds",
    ["compare", RELAY, "--seeds", "0"],
    /--seeds 0: write a number of seeds, .* or a range such as 6-10/,
  ],
  ["a variation that names no values", ["compare", RELAY, "--vary", "steps"], /--vary steps: write path=value,value/],
  [
    "nothing to evaluate",
    ["eval"],
    /name a run, a folder, a team file or a model behind an API to evaluate, or a location with --watch/,
  ],
  ["a watch without a team", ["eval", "--watch", "inbox"], /--watch needs --team <file>/],
  [
    "a run and a watch at once",
    ["eval", "run", "--watch", "inbox", "--team", "t"],
    /'run' and --watch: give one of the two/,
  ],
  ["a setting that a watch would ignore", ["eval", "--watch", "inbox", "--seed", "2"], /--watch .*--seed/],
  ["a team without a watch", ["eval", "run", "--team", "t"], /--team and --every go with --watch/],
  ["a team file that is not there", ["eval", "--watch", "inbox", "--team", "t"], /--team t: no such file/],
  ["checkpoints that are not there", ["eval", "nowhere"], /no checkpoints at .*nowhere/],
  ["a store that the environment does not name", ["dispatch"], /environment of mgrpo dispatch: MGRPO_TABLE: set it/],
  ["a launch without a store", ["launch", RELAY], /environment of mgrpo launch: MGRPO_TABLE: set it/],
  ["a cloud check without a store", ["cloud", "check"], /environment of mgrpo cloud check: MGRPO_TABLE: set it/],
  [
    "a cloud that listens on every address",
    ["cloud", "serve", "--host", "0.0.0.0"],
    /name the one that others connect to/,
  ],
  ["a cloud with an empty host", ["cloud", "serve", "--host", ""], /--host '' means every address/],
  ["a dashboard with an empty host", ["ui", "--host", ""], /--host '' means every address/],
  [
    "a cloud on another machine's address",
    ["cloud", "serve", "--host", "192.0.2.1"],
    /192\.0\.2\.1 is not an address of this machine/,
  ],
];

/** The error that the user reads. */
async function lineOf(args: readonly string[]): Promise<string> {
  const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  try {
    await buildProgram().parseAsync(args, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) return describe(error);
    expect(error.exitCode).toBe(1);
    return written.mock.calls.join("");
  } finally {
    written.mockRestore();
  }
  throw new Error("was accepted");
}

test.each(TABLE)("refused, and no run folder is left behind: %s", async (_what, args, expected) => {
  const line = await lineOf(args);
  expect(line).toMatch(expected);
  expect(line).not.toMatch(/unexpected|\n\s+at /);
  expect(existsSync("runs")).toBe(false);
});

test("the error for a damaged checkpoint names the agent, the folder and the file", async () => {
  const model = join(folder, "damaged");
  mkdirSync(model);
  for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json"]) writeFileSync(join(model, name), "{}");
  writeFileSync(join(model, "model.safetensors"), Buffer.alloc(3));
  const line = await lineOf(trainRelay("bad", ...compiled, "--set", "agents.main.model=damaged"));
  expect(line).toMatch(/^model of agent 'main', damaged: config\.json: /);
});

test("a folder is refused as a team file, and the error says to name a file", async () => {
  mkdirSync(join(folder, "team.json"));
  expect(await lineOf(["ask", "why?", "--team", "team.json"])).toMatch(
    /^team\.json cannot be read \(EISDIR: .*\): .*name a file$/,
  );
});

test("a byte order mark at the start of a team file is ignored", async () => {
  writeFileSync(join(folder, "marked.json"), `\uFEFF${JSON.stringify({ recipe: "atlantis", agents: {} })}`);
  expect(await lineOf(["ask", "why?", "--team", "marked.json"])).toMatch(/^recipe 'atlantis' does not exist/);
});

test("an unexpected error is one line, and the text of an error or of its cause cannot control the terminal", () => {
  expect(describe(new Error("a\n\u001b[2Jb"))).toBe("unexpected: Error: a [2Jb (MGRPO_DEBUG=1 shows where)");
  const cause = new Error("Unexpected token \u0007\u001b in JSON");
  const damaged = new MgrpoError("checkpoint-damaged", "model.safetensors: not JSON", { cause });
  expect(describe(damaged)).toBe("model.safetensors: not JSON (Unexpected token   in JSON)");
});

test.each([
  ["ends with a carriage return", "IO error: CURRENT: Access is denied.", "\r\n"],
  ["is so long that the message has only its start and end", `<html>${"x".repeat(5000)}</html>`, ""],
])("a cause is not repeated after a message that contains it, even if its line %s", (_what, line, end) => {
  const message = `server: ${boundReason(line)}: try again later`;
  const cause = new Error(line + end);
  expect(describe(new MgrpoError("tool-backend", message, { cause }))).toBe(message);
});
