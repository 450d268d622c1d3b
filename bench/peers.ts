/**
 * @file peers: one GRPO step of SmolLM2-135M with LoRA against TRL's, and sampling against llama.cpp's, on the same cores. All sides of a part are open
 * at once and alternate; a ratio of times is the median over the rounds. bench/peers/README.md says what to install first and what is measured.
 *
 *     npm run bench -- peers                             prints two tables, writes result.json
 *     node dist/bench/peers.js --smoke --folder <path>   shows that every side runs; the peers are installed in <path>, not in .peers
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as z from "zod";
import { builtModule } from "../built-module.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { readModelConfig } from "../engine/checkpoint/config.ts";
import { openTokenizer, readCheckpoint } from "../engine/index.ts";
import { alternate } from "./peers/alternate.ts";
import { openPeer, type Peer } from "./peers/peer.ts";
import { decodingFigures, decodingTable, stepFigures, stepTable } from "./peers/table.ts";
import { FULL, makeWork, SMOKE, type Work } from "./peers/work.ts";
import { requireProc } from "./process-tree.ts";

const FORMS = ["fp32", "int8", "int4"] as const;
const FILES = ["Q4_0", "Q8_0"] as const;
/** A quiet machine's load average is at most this. */
const BUSY_LOAD = 1;
const REQUIREMENTS = fileURLToPath(new URL("./peers/requirements.txt", import.meta.url));

try {
  await compare();
} catch (error) {
  if (!isMgrpoError(error)) throw error;
  console.error(error.message);
  process.exit(1);
}

async function compare(): Promise<void> {
  const { folder, smoke } = optionsOf(process.argv.slice(2));
  requireProc("bench peers");
  const at = pathsIn(resolve(folder));
  const [load = 0] = loadavg();
  if (load > BUSY_LOAD)
    console.error(`load average ${load.toFixed(1)}: the machine is busy with other work, so no figure counts`);
  const work = await workFor(at.model, smoke);
  writeFileSync(at.work, JSON.stringify(work));
  const step = await measureStep(at, work);
  const decoding = await measureDecoding(at, work);
  const [{ model: cpu = "unknown" } = {}] = cpus();
  const { prompts, ...settings } = work;
  const size = { ...settings, questions: prompts.length, promptTokens: prompts[0]?.tokens.length };
  const llama = join(at.llama, "node_modules/node-llama-cpp/package.json");
  const { version } = parseJson(z.object({ version: z.string() }), readFileSync(llama), llama);
  const versions = [...readFileSync(REQUIREMENTS, "utf8").trim().split("\n"), `node-llama-cpp==${version}`];
  const result = { cpu, cores: cpus().length, loadAtStart: load, smoke, work: size, versions, step, decoding };
  writeFileSync(at.result, `${JSON.stringify(result, null, 2)}\n`);
  console.log(`\nwritten: ${at.result}`);
}

function optionsOf(args: string[]): { folder: string; smoke: boolean } {
  const options = {
    folder: { type: "string", default: ".peers" },
    smoke: { type: "boolean", default: false },
  } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new MgrpoError("config-invalid", `${(error as Error).message} (the options are --folder and --smoke)`);
  }
}

/** Where bench/peers/README.md says to install everything. Throws `not-found` if a part is missing. */
function pathsIn(folder: string) {
  const needed = {
    python: join(folder, "python/bin/python"),
    llama: join(folder, "llama"),
    model: join(folder, "model"),
    Q4_0: join(folder, "Q4_0.gguf"),
    Q8_0: join(folder, "Q8_0.gguf"),
  };
  const missing = Object.values(needed).find((path) => !existsSync(path));
  if (missing) {
    const message = `bench peers: ${missing} is missing: install the peers as bench/peers/README.md in the repository says`;
    throw new MgrpoError("not-found", message);
  }
  return { ...needed, work: join(folder, "work.json"), result: join(folder, "result.json") };
}
type Paths = ReturnType<typeof pathsIn>;

async function workFor(model: string, smoke: boolean): Promise<Work> {
  const files = await readCheckpoint(model);
  const { encodeText, decode } = openTokenizer(files);
  return makeWork(smoke ? SMOKE : FULL, { vocabulary: readModelConfig(files).vocabulary, encodeText, decode });
}

async function measureStep(at: Paths, { prompts, rollouts, newTokens, rounds }: Work) {
  const script = fileURLToPath(new URL("./peers/trl_step.py", import.meta.url));
  const peers = {
    mgrpo: nodePeer("mgrpo", "step", [at.work, at.model]),
    TRL: openPeer("TRL", at.python, ["-B", script, at.work, at.model]),
  };
  const tokens = prompts.length * rollouts * newTokens;
  const { mgrpo, TRL } = await closing(peers, () => alternate(peers, rounds, tokens, progress));
  const figures = stepFigures(mgrpo, TRL);
  console.log(`\nOne GRPO step: ${prompts.length} questions, ${rollouts} rollouts each, ${newTokens} new tokens each`);
  console.log(`${stepTable(figures)}\n`);
  return figures;
}

async function measureDecoding(at: Paths, { prompts, decoding }: Work) {
  const ours = FORMS.map((form) => [form, nodePeer(`mgrpo ${form}`, "sample", [at.work, at.model, form])] as const);
  const theirs = FILES.map(
    (file) => [file, nodePeer(`llama.cpp ${file}`, "llama", [at.work, at[file], at.llama])] as const,
  );
  const peers: Record<string, Peer> = Object.fromEntries([...ours, ...theirs]);
  const { rounds, promptTokens, newTokens } = decoding;
  const sides = await closing(peers, () => alternate(peers, rounds, prompts.length * newTokens, progress));
  const pick = (names: readonly string[]) =>
    Object.fromEntries(Object.entries(sides).filter(([name]) => names.includes(name)));
  const figures = decodingFigures(pick(FORMS), pick(FILES));
  console.log(`\nSampling: ${prompts.length} sequences, prompts of ${promptTokens} tokens, ${newTokens} new ones each`);
  console.log(decodingTable(figures));
  return figures;
}

function nodePeer(name: string, module: string, args: readonly string[]): Peer {
  return openPeer(name, process.execPath, [fileURLToPath(builtModule(`bench/peers/${module}`)), ...args]);
}

async function closing<T>(peers: Readonly<Record<string, Peer>>, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    await Promise.all(Object.values(peers).map((peer) => peer.close()));
  }
}

function progress(round: number, name: string, { seconds }: { seconds: number }): void {
  console.error(`${round === 0 ? "warm-up" : `round ${round}`}: ${name} ${seconds.toFixed(1)} s`);
}
