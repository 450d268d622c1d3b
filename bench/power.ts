/**
 * @file power.<comparison>.<arm>: the differences that comparisons like the recorded ones can detect. For each arm of results/<comparison> that
 * shares at least two seeds with the first arm on a suite: the standard deviations of their paired difference (between seeds, between questions, and
 * of what neither explains; core/training/power.ts), and `detectable`, the smallest difference that is detected in 80% of cases, by number of seeds
 * and of questions.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import * as z from "zod";
import { comparedSuites, type EvaluatedRun, scoresOf } from "../cli/compare/measure.ts";
import { HeldOutScores, pairedScores } from "../cli/held-out-scores.ts";
import { fail } from "../cli/terminal/fail.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { differenceTable } from "../core/training/bootstrap.ts";
import { detectableDifference, varianceComponents } from "../core/training/power.ts";

const RESULTS = "results";
const SEEDS = [1, 3, 5, 10];
const QUESTIONS = [64, 96, 320, 336];

/** The parts of a comparison's files that are read. They are the same in files of older releases. */
const Summary = z.object({
  arms: z.array(z.object({ label: z.string(), runs: z.array(z.object({ run: z.string() })) })),
});
const RunFile = z.object({
  report: z.object({ run: z.string(), seed: z.int(), steps: z.int() }),
  heldOut: z.array(HeldOutScores),
});

const rounded = (value: number): number => Number(value.toFixed(4));

/** Runs are recorded as they finish; the summary follows when `mgrpo compare` ends. */
const isCompared = (comparison: string): boolean =>
  ["runs", "summary.json"].every((part) => existsSync(join(RESULTS, comparison, part)));
try {
  for (const line of measureAll()) console.log(JSON.stringify(line));
} catch (error) {
  fail(error);
}

function measureAll(): object[] {
  const comparisons = existsSync(RESULTS) ? readdirSync(RESULTS).filter(isCompared) : [];
  if (comparisons.length === 0) {
    throw new MgrpoError("not-found", `no comparison in ${RESULTS}/: run 'mgrpo compare' in this folder first`);
  }
  const lines = comparisons.flatMap((comparison) => {
    const folder = join(RESULTS, comparison);
    const path = join(folder, "summary.json");
    const arms = parseJson(Summary, readFileSync(path), path).arms.map(({ label, runs }) => ({
      label,
      runs: runs.map(({ run }) => readRun(folder, run)),
    }));
    const [first, ...others] = arms;
    return others.flatMap(({ label, runs }) => linesOf(`power.${comparison}.${label}`, runs, first?.runs ?? []));
  });
  if (lines.length > 0) return lines;
  throw new MgrpoError(
    "not-found",
    `no comparison in ${RESULTS}/ has a second arm that shares two seeds with the first: compare several arms, with --seeds 2 or more`,
  );
}

function readRun(folder: string, run: string): EvaluatedRun {
  const path = join(folder, "runs", `${run}.json.gz`);
  const { report, heldOut } = parseJson(RunFile, gunzipSync(readFileSync(path)), path);
  return { ...report, heldOut };
}

function linesOf(bench: string, runs: readonly EvaluatedRun[], first: readonly EvaluatedRun[]): object[] {
  const baselineOf = ({ seed }: EvaluatedRun) => first.find((one) => one.seed === seed);
  const paired = runs.filter(baselineOf);
  return comparedSuites(paired).flatMap(({ suite }) => {
    const after = (run: EvaluatedRun | undefined) => scoresOf(run, suite, "after");
    // With --mixed, a run may lack a suite.
    const pairs = paired
      .map((run) => [after(run), after(baselineOf(run))] as const)
      .filter((pair) => pair.every(({ length }) => length > 0));
    if (pairs.length < 2) return [];
    const table = differenceTable(
      ...pairedScores(
        pairs.map(([scores]) => scores),
        pairs.map(([, baseline]) => baseline),
      ),
    );
    const parts = varianceComponents(table);
    const [seed, question, noise] = [parts.seed, parts.question, parts.noise].map((part) => rounded(Math.sqrt(part)));
    const byQuestions = (S: number) => QUESTIONS.map((Q) => [Q, rounded(detectableDifference(parts, S, Q))]);
    const bySeeds = SEEDS.map((S) => [S, Object.fromEntries(byQuestions(S))]);
    const deviations = { seed, question, noise };
    return { bench, suite, seeds: pairs.length, deviations, detectable: Object.fromEntries(bySeeds) };
  });
}
