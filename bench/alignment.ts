/**
 * @file alignment.*: when does it matter how a sub-agent's trajectories are weighted? Trains in each world (alignment/world.ts), with each mode of
 * weighting (alignment/train.ts) and many seeds. By default, a rollout makes at most 20 calls. One line per world and mode: the score over the whole
 * training (`during`) and at its end (`end`), both as means over rollouts; at the end, the mean over calls (`perCall`) and the score of each task
 * that `tasksOf` lists, in its order (`kinds`); the standard deviation of `during` between seeds (`betweenSeeds`); and the mean difference of
 * `during` from that of the paper's `resample` on the same seed (`fromResample`), with its 95% interval.
 *
 *     node dist/bench/alignment.js --lengths unequal [--aggregation token-mean]      reports of unequal length, after `node build.mjs`
 *     node dist/bench/alignment.js --counts 0,2,2,2,5,8,13,20                        other numbers of calls that eight questions need
 */
import { parseArgs } from "node:util";
import * as z from "zod";
import { AlgorithmSettings } from "../core/contracts/algorithm-config.ts";
import { parse } from "../core/contracts/parse.ts";
import { mean, sum } from "../core/statistics.ts";
import { MODES, type Mode, type TrainingResult, trainSearcher } from "./alignment/train.ts";
import { COUNTS, LENGTHS, tasksOf, WORLDS } from "./alignment/world.ts";

const [SEEDS, STEPS] = [24, 40];
const Z_975 = 1.959964;

const { values } = parseArgs({
  options: {
    lengths: { type: "string", default: "equal" },
    aggregation: { type: "string" },
    counts: { type: "string", default: COUNTS.join() },
  },
});
const schema = z.strictObject({
  lengths: z.enum(LENGTHS),
  aggregation: AlgorithmSettings.shape.aggregation,
  counts: z
    .string()
    .transform((text) => text.split(",").map(Number))
    .pipe(z.array(z.int().min(0))),
});
const options = parse(schema, values, "options", "config-invalid");
const variant = Object.values(options)
  .map(String)
  .filter((value) => !["equal", "trajectory-mean", COUNTS.join()].includes(value));

const deviation = (values: readonly number[]): number => {
  const center = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - center) ** 2, 0) / (values.length - 1));
};
const rounded = (value: number): number => Number(value.toFixed(4));

for (const world of WORLDS) {
  const runs = new Map<Mode, TrainingResult[]>(
    MODES.map((mode) => [
      mode,
      Array.from({ length: SEEDS }, (_, seed) => trainSearcher(world, mode, seed, STEPS, options)),
    ]),
  );
  const paper = runs.get("resample") ?? [];
  for (const [mode, trained] of runs) {
    const during = trained.map(({ scores }) => mean(scores));
    const differences = during.map((score, seed) => score - mean(paper[seed]?.scores ?? []));
    const half = (Z_975 * deviation(differences)) / Math.sqrt(SEEDS);
    const tasks = tasksOf(world, options.lengths, options.counts);
    const line = {
      bench: ["alignment", ...variant, world, mode].join("."),
      during: rounded(mean(during)),
      end: rounded(mean(trained.map(({ scores }) => scores.at(-1) ?? 0))),
      perCall: rounded(
        mean(trained.map((one) => sum(tasks.map(({ ofCalls }, i) => ofCalls * (one.qualities[i] ?? 0))))),
      ),
      kinds: tasks.map((_, i) => rounded(mean(trained.map((one) => one.qualities[i] ?? 0)))),
      betweenSeeds: rounded(deviation(during)),
      fromResample: rounded(mean(differences)),
      interval: [rounded(mean(differences) - half), rounded(mean(differences) + half)],
    };
    console.log(JSON.stringify(line));
  }
}
