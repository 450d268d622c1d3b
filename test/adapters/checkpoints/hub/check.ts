/**
 * @file `npm run check:hub`: mgrpo shares the cache of the Hugging Face Hub with Hugging Face's Python library, which is installed from PyPI.
 * What one of the two has cached, the other finds, online and offline, and does not download again. The hub is a fake one on this machine.
 * Not part of CI. Exit code 1 if a check fails, 2 if the checks cannot run here.
 */
import { deepStrictEqual as equal } from "node:assert";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { fetchModel } from "../../../../adapters/checkpoints/hub/model.ts";
import { hubSettings } from "../../../../adapters/checkpoints/hub/settings.ts";
import { COMMIT, type FakeHub, startHub, TOKEN } from "../../../fakes/hub-server.ts";
import { makePython } from "../../../python.ts";
import { FILES, MODEL } from "./tiny-hub.ts";

const OFFLINE = { HF_HUB_OFFLINE: "1" };
const LOOKUP = `/api/models/${MODEL.repository}/revision/main`;
/** The files that mgrpo fetches. */
const NAMES = [...FILES.keys()].slice(0, 4);
const SILENT = { progress() {}, note() {} };

const Found = z.strictObject({
  found: z.record(z.string(), z.string()),
  warnings: z.array(z.string()),
  models: z.array(z.string()),
});

interface Machine {
  readonly python: string;
  readonly hub: FakeHub;
  /** The value of HF_HOME. */
  readonly home: string;
}

/** The environment without the caller's Hugging Face settings, which may name another cache, token or mode. */
const neutral = Object.entries(process.env).filter(
  ([name]) => !/^(HF_|HUGGINGFACE_|HUGGING_FACE_|TRANSFORMERS_OFFLINE$)/.test(name),
);
const environmentOf = ({ hub, home }: Machine) => ({ HF_ENDPOINT: hub.url, HF_HOME: home, HF_TOKEN: TOKEN });

/** Where Python finds the files. It downloads those that are not in the cache. */
async function byPython(machine: Machine, files: readonly string[], more: Record<string, string> = {}) {
  const script = join(import.meta.dirname, "check.py");
  const env = { ...Object.fromEntries(neutral), ...environmentOf(machine), ...more };
  const { stdout } = await promisify(execFile)(machine.python, [script, MODEL.repository, MODEL.revision, ...files], {
    env,
  });
  const { found, warnings, models } = Found.parse(JSON.parse(stdout));
  equal({ warnings, models }, { warnings: [], models: [MODEL.repository] }, "what Python reports on the whole cache");
  return found;
}

const byUs = (machine: Machine, more: Record<string, string> = {}) =>
  fetchModel(MODEL, hubSettings({ ...environmentOf(machine), ...more }), SILENT);

/** The requests for the contents of files that `work` makes; HEAD requests do not count. */
async function downloads(hub: FakeHub, work: () => Promise<unknown>): Promise<string[]> {
  const before = hub.requests.length;
  await work();
  return hub.requests.slice(before).filter((path) => path.includes("/resolve/") && !path.startsWith("HEAD "));
}

const inFolder = (folder: string, files: readonly string[]) =>
  Object.fromEntries(files.map((file) => [file, join(folder, file)]));

async function oursFirst(machine: Machine): Promise<void> {
  const expected = inFolder(await byUs(machine), NAMES);
  equal(await byPython(machine, NAMES, OFFLINE), expected, "where Python finds our files, offline");
  const again = await downloads(machine.hub, async () => equal(await byPython(machine, NAMES), expected));
  equal(again, [], "what Python downloads although we have it");
}

async function pythonFirst(machine: Machine): Promise<void> {
  const folder = join(machine.home, "hub", "models--owner--tiny", "snapshots", COMMIT);
  equal(await byPython(machine, NAMES), inFolder(folder, NAMES), "where Python puts its files");
  equal(await byUs(machine, OFFLINE), folder, "where we find Python's files, offline");
  const before = machine.hub.requests.length;
  equal(await byUs(machine), folder, "where we find Python's files");
  equal(machine.hub.requests.slice(before), [LOOKUP], "what we request although Python has it");
}

async function oneFileByPython(machine: Machine): Promise<void> {
  const [first = "", ...rest] = NAMES;
  await byPython(machine, [first]);
  const fetched = await downloads(machine.hub, () => byUs(machine));
  const names = new Set(fetched.map((path) => path.split(" ")[0]?.split("/").at(-1)));
  equal([...names].sort(), rest.sort(), "what we download if Python has one file");
}

async function main(folder: string): Promise<void> {
  const python = join(makePython(folder, ["huggingface_hub==2.4.0"], "100 MB"), "python");
  for (const check of [oursFirst, pythonFirst, oneFileByPython]) {
    const hub = await startHub(MODEL.repository, FILES);
    try {
      await check({ python, hub, home: mkdtempSync(join(folder, "home-")) });
      console.log(`${check.name}: ok`);
    } catch (error) {
      console.error(`${check.name}: ${(error as Error).message}`);
      process.exitCode = 1;
    } finally {
      await hub.close();
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), "mgrpo-hub-"));
try {
  await main(folder);
} catch (error) {
  console.error(`check:hub: ${(error as Error).message}`);
  process.exitCode = 2;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
