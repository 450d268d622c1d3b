/** @file Reads what `show` shows: rollouts with their invocations and scores, groups, steps. Only reads. */

import type { RunConfig } from "../../core/contracts/config.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { GroupRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { readGroups, readStep } from "../local/follow.ts";
import { readInvocations, readOutcome, readQuestions } from "./conversations.ts";
import { groupTree, rolloutTree, type Tree } from "./tree.ts";

/** What to show: a step, one of its groups, or one rollout of it. */
export interface Address {
  readonly step: number;
  readonly group?: number;
  readonly rollout?: number;
}

/** `12`, `12/3` or `12/3/5`. */
export function parseAddress(text: string): Address {
  const match = /^(\d+)(?:\/(\d+)(?:\/(\d+))?)?$/.exec(text);
  if (!match) {
    throw new MgrpoError(
      "not-found",
      `'${text}' is no address: write a step, step/group or step/group/rollout, e.g. 12/3/5, or cases`,
    );
  }
  const [, step, group, rollout] = match;
  return {
    step: Number(step),
    ...(group !== undefined && { group: Number(group) }),
    ...(rollout !== undefined && { rollout: Number(rollout) }),
  };
}

export async function loadTrees(store: Store, config: RunConfig, address: Address): Promise<Tree[]> {
  const { train } = await readQuestions(store, config.run);
  const questions = new Map(train.map((question) => [question.id, question]));
  const step = await readStep(store, config.run, address.step).catch((error: unknown) => {
    if (!isMgrpoError(error, "not-found")) throw error;
    throw new MgrpoError("not-found", `run '${config.run}' has not begun step ${address.step}: steps count from 0`);
  });
  const known = await readGroups(store, step);
  if (known.length === 0)
    throw new MgrpoError(
      "not-found",
      `the groups of step ${address.step} are gone: the store keeps them for a time only`,
    );
  const groups = known.filter(({ group }) => group === (address.group ?? group));
  if (groups.length === 0) {
    throw new MgrpoError(
      "not-found",
      `step ${address.step} has groups 0 to ${step.groups.length - 1}, not ${address.group}`,
    );
  }
  return Promise.all(
    groups.map(async (group) => {
      const question = questions.get(group.questionId);
      if (!question) throw new MgrpoError("record-damaged", `question '${group.questionId}' is not in questions.json`);
      const rollouts = await loadRollouts(store, config, group, question, address.rollout);
      const [only] = rollouts;
      return address.rollout !== undefined && only
        ? only
        : groupTree(group, config.main, question, rollouts.map(inGroup));
    }),
  );
}

/** Beneath its group a rollout need not repeat the question. */
function inGroup({ body: _question, ...rollout }: Tree): Tree {
  return { ...rollout, folded: true };
}

async function loadRollouts(
  store: Store,
  config: RunConfig,
  group: GroupRecord,
  question: Question,
  only: number | undefined,
): Promise<Tree[]> {
  if (only !== undefined && only >= group.rolloutsPerQuestion) {
    throw new MgrpoError(
      "not-found",
      `group ${group.step}/${group.group} has rollouts 0 to ${group.rolloutsPerQuestion - 1}`,
    );
  }
  const indices = only === undefined ? Array.from({ length: group.rolloutsPerQuestion }, (_, k) => k) : [only];
  return Promise.all(
    indices.map(async (index): Promise<Tree> => {
      const address = { run: config.run, phase: "train", step: group.step, group: group.group, rollout: index };
      const outcome = await readOutcome(store, address);
      if (!outcome) {
        const title = `rollout ${group.step}/${group.group}/${index}`;
        return { title, tags: [{ text: "no outcome yet", tone: "faint" }], children: [] };
      }
      const invocations = await readInvocations(store, outcome);
      return rolloutTree({
        index,
        main: config.main,
        algorithm: config.algorithm,
        question,
        group,
        outcome,
        invocations,
      });
    }),
  );
}
