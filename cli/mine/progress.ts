/** @file The live line of `mgrpo mine`: how many answers are in the store, and the time left. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { ObjectStore } from "../../core/ports.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import type { OnPoll } from "../local/evaluate-team.ts";
import { duration } from "../terminal/columns.ts";
import type { LiveLine } from "../terminal/live.ts";

/** @param questions how many there are; each is asked `samples` times. */
export function showProgress(
  live: LiveLine,
  suite: string,
  config: RunConfig,
  questions: number,
  samples: number,
): OnPoll {
  const total = questions * samples;
  let answered = 0;
  let start: { readonly answered: number; readonly milliseconds: number } | undefined;
  return async ({ objects }, jobs) => {
    const [job] = jobs;
    if (!job || job.state === "done") return;
    const step = addressStep(config, job.team);
    const keyOf = (answer: number) => {
      const address = { group: answer % questions, rollout: Math.floor(answer / questions) };
      return objectKeys.outcome({ run: config.run, phase: `eval:${job.job}`, step, ...address });
    };
    answered = await countAnswers(objects, keyOf, answered, total);
    start ??= { answered, milliseconds: performance.now() };
    const speed = (answered - start.answered) / (performance.now() - start.milliseconds);
    const left = speed > 0 ? ` · ${duration((total - answered) / speed / 1000)} left` : "";
    live.show(() => `${suite}: ${answered} of ${total} answers${left}`);
  };
}

/** Large enough to step over answers that are late or being retried. */
const FIRST_STRIDE = 64;

/**
 * About how many answers are in the store, at least `known`. Except for those in flight, answers arrive in order, so if one is in the store,
 * nearly all before it are. The search therefore doubles its stride instead of requesting every answer.
 */
export async function countAnswers(
  objects: Pick<ObjectStore, "head">,
  keyOf: (answer: number) => string,
  known: number,
  total: number,
): Promise<number> {
  let count = known;
  const isThere = async (answer: number) => answer < total && (await objects.head(keyOf(answer))) !== undefined;
  for (let stride = FIRST_STRIDE; stride >= 1; ) {
    if (await isThere(count + stride - 1)) {
      count += stride;
      stride *= 2;
    } else {
      stride = Math.floor(stride / 2);
    }
  }
  return count;
}
