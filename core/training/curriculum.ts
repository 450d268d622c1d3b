/**
 * @file Which questions a step asks: a pure function of the seed, the step and the state that the step before left behind.
 * Each stage of the curriculum has its own seeded order over the questions of its levels; the state is the position in it.
 * An epoch asks every question once, and the next epoch has another order, so nothing is skipped and nothing repeated within one.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Question } from "../contracts/question.ts";
import type { CurriculumState } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import { stream } from "../random.ts";

type Plan = Pick<RunConfig, "seed" | "curriculum">;

/** Before the first step. */
export function initialCurriculum({ curriculum }: Plan): CurriculumState {
  return { stage: 0, drawn: curriculum.map(() => 0) };
}

/** The stage of a step: the last one that has begun. */
export function stageOf({ curriculum }: Plan, step: number): number {
  return curriculum.findLastIndex((stage) => stage.fromStep <= step);
}

/** The next `count` questions at this step, and the state after them. */
export function drawQuestions(
  plan: Plan,
  questions: readonly Question[],
  step: number,
  before: CurriculumState,
  count: number,
): { questions: string[]; curriculum: CurriculumState } {
  const stage = stageOf(plan, step);
  const pool = poolOf(plan, questions, stage);
  const start = before.drawn[stage] ?? 0;
  const drawn: string[] = [];
  let order: { epoch: number; indices: number[] } | undefined;
  for (let position = start; position < start + count; position++) {
    const epoch = Math.floor(position / pool.length);
    if (order?.epoch !== epoch) {
      order = { epoch, indices: stream(plan.seed, "curriculum", stage, epoch).choose(pool.length, pool.length) };
    }
    drawn.push(
      ...order.indices.slice(position % pool.length, (position % pool.length) + 1).flatMap((i) => pool[i] ?? []),
    );
  }
  return {
    questions: drawn,
    curriculum: { stage, drawn: before.drawn.map((n, i) => (i === stage ? n + count : n)) },
  };
}

/** Ids of a stage's questions, in the question set's order. Refuses a stage that has none. */
export function poolOf({ curriculum }: Plan, questions: readonly Question[], stage: number): string[] {
  const levels = curriculum[stage]?.levels ?? [];
  const pool = questions.filter(({ level }) => levels.includes(level)).map(({ id }) => id);
  if (pool.length > 0) return pool;
  const there = [...new Set(questions.map(({ level }) => level))].sort((a, b) => a - b);
  throw new MgrpoError(
    "config-invalid",
    `curriculum.${stage}.levels: no training question has level ${levels.join(", ")}; the recipe has levels ${there.join(", ")}`,
  );
}
