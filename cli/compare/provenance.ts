/**
 * @file What a run of a comparison was trained with: the source version, the release, a user's recipe, the questions, the config, the base
 * models and the machine. Without `--mixed`, an existing run belongs to a comparison only if the comparison would use the same ones to train it
 * today; only the machine may differ. The provenance is written to the run's folder (origin.json) when the run starts or is resumed, and copied
 * to its record.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import * as z from "zod";
import type { RunConfig } from "../../core/contracts/config.ts";
import { AgentName, Sha256 } from "../../core/contracts/names.ts";
import { canonicalJson, parseJson } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { differences } from "../../core/training/differences.ts";
import { sha256 } from "../../engine/hash.ts";
import { release } from "../../gpu-workers/release.ts";
import { type Bases, hashesOf } from "../local/base-models.ts";
import type { RunFolder } from "../local/run-folder.ts";
import { writeAtomically } from "../local/written-files.ts";
import { makeFolder } from "../writable-folder.ts";
import { recipeHash } from "./recipe-source.ts";

export const Provenance = z.strictObject({
  commit: z.string(),
  machine: z.string(),
  /** What the run's workers executed (gpu-workers/release.ts). Older records lack this field and the fields below. */
  release: z.string().exactOptional(),
  /** Hash of the source files of a user's recipe (recipe-source.ts). Absent for a recipe of this package. */
  recipe: z.string().exactOptional(),
  /** SHA-256 of the training and held-out questions and those of the suites (`identifyQuestions`). */
  questions: Sha256.exactOptional(),
  /** As resolved, but without the names of the agents' models and of the files of questions and criteria, which `bases` and `questions` identify. */
  config: z.record(z.string(), z.json()).exactOptional(),
  /** Agent -> SHA-256 of the names and hashes of its base model's files. */
  bases: z.record(AgentName, Sha256).exactOptional(),
});
export type Provenance = z.infer<typeof Provenance>;

/** Provenance of a run whose folder does not record it. */
const UNKNOWN: Provenance = { commit: "unknown", machine: "unknown" };

/** Provenance of a run that this process starts. */
export function provenanceOf(
  config: RunConfig,
  { questions, bases }: Pick<Required<Provenance>, "questions" | "bases">,
): Provenance {
  const recipe = recipeHash(config.recipe);
  return { ...thisProcess(), ...(recipe && { recipe }), questions, config: withoutPaths(config), bases };
}

/** Identifies a run's questions, those of its suites and their criteria included, by their content, wherever they are read from. */
export const identifyQuestions = (questions: QuestionSet): string => sha256(canonicalJson(questions));

export async function identifyBases(bases: Bases): Promise<Required<Provenance>["bases"]> {
  const hashes = Object.entries(await hashesOf(bases));
  return Object.fromEntries(
    hashes.map(([agent, files]) => [agent, sha256(JSON.stringify(Object.entries(files).sort()))]),
  );
}

/** What differs, one line each: why a run does not belong to this comparison. */
export function provenanceDifferences(ours: Provenance, theirs: Provenance): string[] {
  const commit = isSameSource(ours.commit, theirs.commit) ? [] : differences(ours.commit, theirs.commit, "commit");
  const rest = (["release", "questions", "config", "bases"] as const).flatMap((part) =>
    theirs[part] === undefined ? [`${part}: not recorded`] : differences(ours[part], theirs[part], part),
  );
  const [own, other] = [ours.recipe ?? "not recorded", theirs.recipe ?? "not recorded"];
  return [...commit, ...differences(own, other, "recipe"), ...rest];
}

/** Undefined: the run has not started. */
export function readOrigin(folder: RunFolder): Provenance | undefined {
  if (existsSync(folder.origin)) return parseJson(Provenance, readFileSync(folder.origin), folder.origin);
  return existsSync(folder.config) ? UNKNOWN : undefined;
}

/** Separates the versions, or the machines, that trained a run, in order. */
const THEN = ", then ";

/** Whether a comparison has started the run, or the run has a config. */
export const hasStarted = (folder: RunFolder): boolean => readOrigin(folder) !== undefined;

/** Called before the run starts or is resumed. A run that another version or machine began is recorded as trained by both. */
export function writeOrigin(folder: RunFolder, ours: Provenance): void {
  const before = existsSync(folder.config) ? readOrigin(folder) : undefined;
  const both = (key: "commit" | "machine" | "release" | "recipe") => {
    const [first, then] = [before ? (before[key] ?? "unknown") : ours[key], ours[key]];
    return first === then || first?.endsWith(`${THEN}${then}`) ? first : `${first}${THEN}${then}`;
  };
  const recipe = ours.recipe === undefined ? undefined : both("recipe");
  const parts = {
    commit: both("commit"),
    machine: both("machine"),
    release: both("release"),
    ...(recipe !== undefined && { recipe }),
  };
  const origin = { ...(before ?? ours), ...parts };
  makeFolder(folder.path);
  writeAtomically(folder.origin, `${JSON.stringify(Provenance.parse(origin), null, 2)}\n`);
}

function withoutPaths({ questions: _, evaluation, ...config }: RunConfig): Required<Provenance>["config"] {
  const agents = Object.entries(config.agents).map(([name, { model: _model, ...agent }]) => [name, agent]);
  const suites = evaluation.suites.map(({ data: _data, criteria: _criteria, ...suite }) => suite);
  const own = { ...config, evaluation: { ...evaluation, suites }, agents: Object.fromEntries(agents) };
  return JSON.parse(JSON.stringify(own));
}

let known: Pick<Provenance, "commit" | "machine" | "release"> | undefined;

/** Read once: a commit while a comparison runs does not change what its processes execute. */
function thisProcess() {
  const [{ model = "unknown processor" } = {}] = cpus();
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  known ??= {
    commit: sourceVersion(),
    machine: `${cpus().length} x ${model.trim()}, ${gigabytes} GiB, Node.js ${process.version}, ${process.platform}`,
    release: release(process.env),
  };
  return known;
}

/** What a run executes. Commits that differ only elsewhere, such as in docs or results, count as the same source. */
const CODE = [
  "core",
  "engine",
  "adapters",
  "functions",
  "gpu-workers",
  "recipes",
  "cli",
  "built-module.ts",
  "build.mjs",
  "package-lock.json",
];

/**
 * The commit, marked if code differs from it. An installed package has no commit: the repository around it, if there is one, is the user's.
 * @param folder in the package; for tests.
 */
export function sourceVersion(folder = import.meta.dirname): string {
  const isCheckout =
    git(folder, "ls-files", "--error-unmatch", "--", fromTop("cli/compare/provenance.ts")) !== undefined;
  const commit = isCheckout ? git(folder, "rev-parse", "--short=12", "HEAD") : undefined;
  if (commit === undefined) return "none: an installed package";
  return git(folder, "status", "--porcelain", "--untracked-files=no", "--", ...CODE.map(fromTop)) === ""
    ? commit
    : `${commit}-dirty`;
}

/** `theirs`: of a run that was resumed, every version that trained it. */
const isSameSource = (ours: string, theirs: string): boolean =>
  theirs.split(THEN).every((version) => isSameVersion(ours, version));

function isSameVersion(ours: string, theirs: string): boolean {
  if (ours === theirs) return true;
  const areCommits = [ours, theirs].every((commit) => /^[0-9a-f]{7,40}$/.test(commit));
  return (
    areCommits && git(import.meta.dirname, "diff", "--quiet", ours, theirs, "--", ...CODE.map(fromTop)) !== undefined
  );
}

const fromTop = (path: string) => `:/${path}`;

/** Undefined if it fails. */
function git(cwd: string, ...command: string[]): string | undefined {
  try {
    return execFileSync("git", ["--no-optional-locks", ...command], {
      cwd,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return undefined;
  }
}
