/**
 * @file Which questions a step asks: a pure function of the config, the questions, the step's progress and the states of earlier steps. Each
 * stage of the curriculum has its own seeded order of the questions at its levels, and the state is the position in that order. The order
 * consists of epochs: each has every one of these questions exactly once, in a new order. A stage begins at a fixed step or at a share of the
 * run's progress. With a share, runs with the same token budget reach the same difficulty after the same number of tokens, however many steps
 * they take, unless the share of `steps` that is done is the larger one (progress.ts).
 *
 * Under dynamic sampling a step also reserves positions for its replacement rounds, since the next steps may be planned before these begin. The
 * positions that it does not use come first in the step whose plan waits for it (`PlanBasis.sampled`), if that step is in the same stage.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Question } from "../contracts/question.ts";
import type { CurriculumState, StepRecord } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import { stream } from "../random.ts";
import { runShareAt } from "./progress.ts";

type CurriculumConfig = Pick<RunConfig, "seed" | "curriculum">;

/** The state before the first step. */
export function initialCurriculum({ curriculum }: CurriculumConfig): CurriculumState {
  return { stage: 0, drawn: curriculum.map(() => 0) };
}

/** The stage of a step: the last one that has begun. */
export function stageOf(
  config: Pick<RunConfig, "curriculum" | "steps" | "sampledTokens">,
  step: Pick<StepRecord, "step" | "sampledBefore">,
): number {
  const progress = runShareAt(config, step);
  return config.curriculum.findLastIndex(({ from, fromStep = 0 }) =>
    from === undefined ? fromStep <= step.step : from <= progress,
  );
}

interface Draw {
  readonly questions: string[];
  readonly curriculum: CurriculumState;
}

interface ReserveOptions {
  /** Number of positions to reserve for replacement rounds. */
  readonly reserve?: number;
  /** Positions of the stage that an earlier step reserved and did not use: they come first. At most `count + reserve`. */
  readonly returned?: readonly number[];
}

/** The next `count` questions of a stage, and the state after them. */
export function drawQuestions(
  config: CurriculumConfig,
  questions: readonly Question[],
  stage: number,
  before: CurriculumState,
  count: number,
  { reserve = 0, returned = [] }: ReserveOptions = {},
): Draw {
  const start = before.drawn[stage] ?? 0;
  const fresh = count + reserve - returned.length;
  const positions = [...returned, ...Array.from({ length: fresh }, (_, i) => start + i)];
  return {
    questions: questionsAt(config, questions, stage, positions.slice(0, count)),
    curriculum: {
      stage,
      drawn: before.drawn.map((n, i) => (i === stage ? n + fresh : n)),
      ...withReserve(positions.slice(count)),
    },
  };
}

/** `count` questions of a step's reserve, for a replacement round, and its state after them. */
export function drawReserve(
  config: CurriculumConfig,
  questions: readonly Question[],
  { stage, drawn, reserve = [] }: CurriculumState,
  count: number,
): Draw {
  return {
    questions: questionsAt(config, questions, stage, reserve.slice(0, count)),
    curriculum: { stage, drawn, ...withReserve(reserve.slice(count)) },
  };
}

const withReserve = (reserve: readonly number[]): Pick<CurriculumState, "reserve"> =>
  reserve.length > 0 ? { reserve: [...reserve] } : {};

/** Ids of the questions at these positions of a stage's order. */
function questionsAt(
  config: CurriculumConfig,
  questions: readonly Question[],
  stage: number,
  positions: readonly number[],
): string[] {
  const pool = poolOf(config, questions, stage);
  const orders = new Map<number, readonly number[]>();
  return positions.flatMap((position) => {
    const epoch = Math.floor(position / pool.length);
    const order = orders.get(epoch) ?? epochOrder(config, stage, epoch, pool.length);
    orders.set(epoch, order);
    return pool[order[position % pool.length] ?? 0] ?? [];
  });
}

function epochOrder({ seed }: CurriculumConfig, stage: number, epoch: number, questions: number): readonly number[] {
  return stream(seed, "curriculum", stage, epoch).choose(questions, questions);
}

/** Ids of a stage's questions, in the question set's order. Refuses a stage that has none. */
export function poolOf({ curriculum }: CurriculumConfig, questions: readonly Question[], stage: number): string[] {
  const levels = curriculum[stage]?.levels ?? [];
  const pool = questions.filter(({ level }) => levels.includes(level)).map(({ id }) => id);
  if (pool.length > 0) return pool;
  const available = [...new Set(questions.map(({ level }) => level))].sort((a, b) => a - b);
  throw new MgrpoError(
    "config-invalid",
    `curriculum.${stage}.levels: no training question has level ${levels.join(", ")}; there are only levels ${available.join(", ")}`,
  );
}
