/**
 * @file The state of supervised training on disk. Training that is killed at any instant resumes from its last checkpoint, bit for bit.
 *
 *     <folder>/step-<n>/       weights and optimizer after n steps; the best step's weights alone once a newer checkpoint exists
 *     <folder>/progress.json   lists the files and their SHA-256; replaced atomically, after the files that it lists are on disk
 *
 * A folder of a step that progress.json does not name is left over from a kill, and is overwritten or removed.
 */
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import * as z from "zod";
import { Sha256 } from "../core/contracts/names.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { errorText, MgrpoError } from "../core/errors.ts";
import { differences } from "../core/training/differences.ts";
import { wholeFile } from "../engine/checkpoint/files.ts";
import { sha256 } from "../engine/hash.ts";
import { TrainingProgress } from "./progress.ts";

/** Exists once a checkpoint is saved. */
export const PROGRESS_FILE = "progress.json";

const StoredCheckpoint = z.strictObject({
  step: z.int().positive(),
  files: z.record(z.string(), Sha256),
});
type StoredCheckpoint = z.infer<typeof StoredCheckpoint>;

const State = z.strictObject({
  settings: z.json().describe("What determines the training. Training resumes only with equal settings."),
  progress: TrainingProgress,
  newest: StoredCheckpoint.describe("What training continues from."),
  best: StoredCheckpoint.describe("The weights of the lowest held-out loss; the newest if nothing is held out."),
});
type State = z.infer<typeof State>;

type TrainerFiles = ReadonlyMap<string, Uint8Array>;

export interface SavedTraining {
  readonly progress: TrainingProgress;
  /** All that the trainer saved at the newest checkpoint. */
  newest(): Promise<TrainerFiles>;
  /** The best checkpoint's weights. */
  best(): Promise<TrainerFiles>;
}

export interface TrainingState {
  /** Undefined: nothing is saved yet. */
  saved(): SavedTraining | undefined;
  save(progress: TrainingProgress, files: TrainerFiles): Promise<void>;
}

/** @throws MgrpoError `config-invalid` if the state is of training with other settings, `record-damaged` if it cannot be parsed. */
export async function openTrainingState(
  folder: string,
  settings: z.infer<typeof State>["settings"],
): Promise<TrainingState> {
  let state = await readState(folder);
  const found = state ? differences(settings, state.settings) : [];
  if (found.length > 0) {
    throw new MgrpoError(
      "config-invalid",
      `${folder} has the state of training with other settings (${found.slice(0, 3).join("; ")}): give the same options or another --to, or delete that folder`,
    );
  }
  return {
    saved() {
      if (!state) return undefined;
      const { progress, newest, best } = state;
      return { progress, newest: () => readFiles(folder, newest), best: () => readFiles(folder, best) };
    },
    async save(progress, files) {
      const newest = await writeFiles(folder, progress.losses.length, files);
      const best = progress.best === newest.step ? withoutOptimizer(newest) : state?.best;
      if (best?.step !== progress.best) throw new RangeError(`step ${progress.best} is the best but was never saved`);
      state = { settings, progress, newest, best };
      await replaceFile(join(folder, PROGRESS_FILE), `${JSON.stringify(state)}\n`);
      await removeOthers(folder, state);
    },
  };
}

async function readState(folder: string): Promise<State | undefined> {
  const path = join(folder, PROGRESS_FILE);
  const bytes = await readIfExists(path);
  try {
    return bytes && parseJson(State, bytes, path);
  } catch (cause) {
    const fault = errorText(cause);
    throw new MgrpoError("record-damaged", `${fault}: restore the file, or delete ${folder}`, { cause });
  }
}

/** Also reads files of 2 GiB or more, which `readFile` refuses. */
async function readIfExists(path: string): Promise<Uint8Array | undefined> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  return found && wholeFile({ path, bytes: found.size });
}

const folderOf = (folder: string, step: number) => join(folder, `step-${step}`);

async function writeFiles(folder: string, step: number, files: TrainerFiles): Promise<StoredCheckpoint> {
  const path = folderOf(folder, step);
  await rm(path, { recursive: true, force: true });
  // Absolute: Node.js 20 never returns from making a relative folder in a deleted working directory.
  await mkdir(resolve(path), { recursive: true });
  for (const [name, bytes] of files) await writeFile(join(path, name), bytes, { flush: true });
  return { step, files: Object.fromEntries([...files].map(([name, bytes]) => [name, sha256(bytes)])) };
}

async function readFiles(folder: string, { step, files }: StoredCheckpoint): Promise<TrainerFiles> {
  const read = Object.entries(files).map(async ([name, expected]) => {
    const path = join(folderOf(folder, step), name);
    const bytes = await readIfExists(path);
    if (bytes && sha256(bytes) === expected) return [name, bytes] as const;
    const fault = bytes ? "not the file that was saved" : "missing";
    throw new MgrpoError("checkpoint-damaged", `${path} is ${fault}: restore it, or delete ${folder}`);
  });
  return new Map(await Promise.all(read));
}

const isOptimizer = (name: string): boolean => name.startsWith("optimizer");

const withoutOptimizer = ({ step, files }: StoredCheckpoint): StoredCheckpoint => ({
  step,
  files: Object.fromEntries(Object.entries(files).filter(([name]) => !isOptimizer(name))),
});

/** Readers find the old file or the new one, never a part. */
async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { flush: true });
  await rename(`${path}.new`, path);
}

/** Removes what the state does not name: earlier checkpoints, and the optimizer of the best one. */
async function removeOthers(folder: string, { newest, best }: State): Promise<void> {
  const named = new Map([best, newest].map(({ step, files }) => [`step-${step}`, files]));
  for (const name of await readdir(folder)) {
    if (!name.startsWith("step-")) continue;
    const kept = named.get(name);
    if (!kept) await rm(join(folder, name), { recursive: true, force: true });
    else for (const file of await readdir(join(folder, name))) if (!(file in kept)) await rm(join(folder, name, file));
  }
}
