/**
 * @file Maps between the T tokens of a trajectory and the A action tokens, which its policy emitted. Only action tokens have a loss: prompts,
 * tool responses and other agents' text are never trained on (eq 14-19). Token ids are used exactly as sampled.
 */
import type { Trajectory } from "../contracts/rollout.ts";
import { MgrpoError } from "../errors.ts";

/** Positions of the action tokens, ascending. Throws `record-damaged` if the trajectory's spans or behavior log-probs do not fit its tokens. */
export function actionPositions_A({ agent, tokens, actions, logProbs }: Trajectory): number[] {
  const positions_A: number[] = [];
  let last = 1;
  for (const [start, end] of actions) {
    // Token 0 has no prefix, so no policy can have emitted it.
    if (start < last || end <= start || end > tokens.length) {
      const span = `action span [${start}, ${end}) of ${tokens.length} tokens`;
      throw damaged(agent, `${span} is empty, overlaps the one before or lies outside [1, ${tokens.length})`);
    }
    for (let t = start; t < end; t++) positions_A.push(t);
    last = end;
  }
  if (positions_A.length !== logProbs.length) {
    throw damaged(agent, `${positions_A.length} action tokens but ${logProbs.length} behavior log-probs`);
  }
  return positions_A;
}

/** The entries of values_T at the positions. */
export function gather(values_T: ArrayLike<number>, positions_A: readonly number[]): number[] {
  return positions_A.map((t) => values_T[t] ?? Number.NaN);
}

/** An array of T entries: values_A at the positions, 0 elsewhere. */
export function scatter(values_A: ArrayLike<number>, positions_A: readonly number[], T: number): Float32Array {
  const values_T = new Float32Array(T);
  positions_A.forEach((t, a) => {
    values_T[t] = values_A[a] ?? 0;
  });
  return values_T;
}

/** For each action token, the value of its turn. A turn is one action span. Throws `record-damaged` if there is not one value per turn. */
export function spreadTurns({ agent, actions }: Trajectory, turns: readonly number[]): number[] {
  if (turns.length !== actions.length)
    throw damaged(agent, `${turns.length} turns were rewarded, not ${actions.length}`);
  return actions.flatMap(([start, end], turn) => new Array<number>(end - start).fill(turns[turn] ?? 0));
}

function damaged(agent: string, what: string): MgrpoError {
  return new MgrpoError("record-damaged", `trajectory of '${agent}': ${what}: delete it and sample its rollout again`);
}
