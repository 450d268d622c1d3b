/**
 * @file Writes the results of a run: checkpoints as Hugging Face folders, even of an unfinished run, and `held-out.json`, `report.json` and
 * `curve.svg` of a finished one. Safe to repeat.
 */
import { join, relative } from "node:path";
import { openExternalFiles } from "../../adapters/checkpoints/external-files.ts";
import { type Part, TeamManifest } from "../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { agentsOfPolicy, ownsPolicy } from "../../core/contracts/shared-policy.ts";
import { errorText, MgrpoError } from "../../core/errors.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import type { TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import type { CheckpointFiles, Store } from "../../core/ports.ts";
import type { CaseStudy } from "../../core/recipe.ts";
import { sizeOf } from "../../engine/checkpoint/files.ts";
import { writeCheckpoint } from "../../engine/checkpoint/folder.ts";
import { sha256OfFile } from "../../engine/hash.ts";
import { openCheckpoints, weightsSha256 } from "../../gpu-workers/checkpoints.ts";
import { heldOutGains } from "../held-out-gains.ts";
import { caseStudyResults, type QuestionScore } from "../held-out-scores.ts";
import { type AgentResult, buildReport, type RunReport } from "../run-report.ts";
import { type ExportForm, exportedFiles } from "./export-form.ts";
import { readEvaluationScores } from "./held-out-rollouts.ts";
import { readOptimizers, readRun } from "./read-records.ts";
import type { RunFolder, RunStatus } from "./run-folder.ts";
import { writeAtomically } from "./written-files.ts";

/**
 * Writes each policy's weights after the first `step` steps, with its tokenizer and config, into `<folder>/<agent>/`, named after the agent that
 * owns the policy.
 */
export async function exportCheckpoints(
  store: Store,
  config: RunConfig,
  folder: string,
  step: number,
  form: ExportForm = { merged: false, dtype: undefined },
): Promise<Record<string, AgentResult>> {
  if (step === 0)
    throw new MgrpoError("not-found", `run '${config.run}' has not finished a step: nothing to export yet`);
  const key = objectKeys.team(config.run, step);
  const bytes = await store.objects.get(key);
  if (!bytes) throw new MgrpoError("record-damaged", `${key} is not in the store, although step ${step - 1} is closed`);
  const team = parseJson(TeamManifest, bytes, key);
  const checkpoints = openCheckpoints(config.run, store, openExternalFiles());
  await checkpoints.verifyTeam(team);
  const optimizers = new Map((await readOptimizers(store, config)).map(({ agent, optimizer }) => [agent, optimizer]));
  const results: Record<string, AgentResult> = {};
  const owned = Object.entries(team.agents).filter(([agent]) => ownsPolicy(config.agents, agent));
  for (const [agent, { version }] of owned) {
    const manifest = await checkpoints.manifest(agent, version);
    const path = join(folder, agent);
    const files = exportedFiles(await checkpoints.files(manifest, "inference"), manifest, form);
    const written = await writeFiles(path, files);
    const optimizer = optimizers.get(agent);
    results[agent] = {
      version,
      checkpoint: relative(process.cwd(), path),
      sha256: weightsSha256(written),
      ...(optimizer && { optimizer }),
    };
    for (const other of agentsOfPolicy(config.agents, agent)) results[other] = results[agent];
  }
  return results;
}

async function writeFiles(path: string, files: CheckpointFiles): Promise<Record<string, Part>> {
  await writeCheckpoint(path, files);
  const written: Record<string, Part> = {};
  for (const [name, content] of files) {
    written[name] = { sha256: await sha256OfFile(content), bytes: sizeOf(content) };
  }
  return written;
}

/**
 * Writes the scores of each question of the suites; returns the gain of each suite and the results of the recipe's case studies. A study that
 * throws is left out, and the report is written without it.
 */
export async function writeHeldOut(
  store: Store,
  config: RunConfig,
  folder: RunFolder,
  caseStudies: readonly CaseStudy[],
  warn: (line: string) => void,
): Promise<Pick<RunReport, "gains" | "caseStudies">> {
  const { step: last } = await readRun(store, config.run);
  const failures = new Map<string, unknown>();
  const guarded = caseStudies.map((study) => withoutFailure(study, (error) => failures.set(study.name, error)));
  const all = await readEvaluationScores(store, config, last, guarded);
  for (const [name, error] of failures) {
    const why = errorText(error);
    warn(`case study '${name}' is left out of the report: ${why}`);
  }
  const kept = caseStudies.filter(({ name }) => !failures.has(name));
  const scores = all.map((one) => ({ ...one, questions: one.questions.map((score) => withStudies(score, kept)) }));
  writeAtomically(folder.heldOut, `${JSON.stringify(scores)}\n`);
  return { gains: heldOutGains(config.run, scores, last), caseStudies: caseStudyResults(scores, last, kept) };
}

/** The study with `checks` that pass an error to `onFailure` and return no check, instead of throwing. */
const withoutFailure = (study: CaseStudy, onFailure: (error: unknown) => void): CaseStudy => ({
  ...study,
  checks(question, rollout) {
    try {
      return study.checks(question, rollout);
    } catch (error) {
      onFailure(error);
      return [];
    }
  },
});

const withStudies = (score: QuestionScore, kept: readonly CaseStudy[]): QuestionScore => ({
  ...score,
  studies: Object.fromEntries(
    Object.entries(score.studies).filter(([study]) => kept.some(({ name }) => name === study)),
  ),
});

export async function writeReport(
  config: RunConfig,
  folder: RunFolder,
  status: RunStatus,
  perStep: readonly StepSummary[],
  evaluations: readonly TeamEvaluation[],
  heldOut: Pick<RunReport, "gains" | "caseStudies">,
  agents: Readonly<Record<string, AgentResult>>,
): Promise<RunReport> {
  const report = buildReport({
    config,
    evaluations,
    ...heldOut,
    perStep,
    agents,
    writes: status.writes,
    scoringSeconds: status.scoringSeconds,
    totalSeconds: status.seconds,
  });
  // The charting library is large, so it is loaded only when a run ends.
  const { drawCurve } = await import("../curve.ts");
  writeAtomically(folder.curve, drawCurve({ ...report, agents: Object.keys(config.agents) }));
  // Last: a run with a report has all of its results. `resume` writes them again only if steps.jsonl is missing.
  writeAtomically(folder.report, `${JSON.stringify(report, null, 2)}\n`);
  return report;
}
