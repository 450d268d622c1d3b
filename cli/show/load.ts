/** @file Loads the trees that `show` and the dashboard draw: the groups of a step, one group, or one rollout. Read-only. */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { RolloutScore } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { Tag, Tree } from "../../ui/views.ts";
import { readLatencies, readRollout, readStoredQuestions } from "../conversations.ts";
import { readBegunStep, readGroups } from "../local/read-records.ts";
import type { NoteOf } from "../notes.ts";
import { openTokenizers, readBranchTexts, type TokenizerOf } from "./branch-texts.ts";
import { groupTree, type RolloutParts, rolloutTree } from "./tree.ts";

/** A step, one of its groups, or one rollout of a group. */
export interface Address {
  readonly step: number;
  readonly group?: number;
  readonly rollout?: number;
}

const ADDRESS = /^(\d+)(?:\/(\d+)(?:\/(\d+))?)?$/;

export const isAddress = (text: string): boolean => ADDRESS.test(text);

/** `12`, `12/3` or `12/3/5`. */
export function parseAddress(text: string): Address {
  const match = ADDRESS.exec(text);
  if (!match) {
    throw new MgrpoError(
      "not-found",
      `'${text}' is not an address: write a step, step/group or step/group/rollout (12, 12/3 or 12/3/5), or 'cases' for the case studies`,
    );
  }
  const [, step, group, rollout] = match;
  return {
    step: Number(step),
    ...(group !== undefined && { group: Number(group) }),
    ...(rollout !== undefined && { rollout: Number(rollout) }),
  };
}

export async function loadTrees(
  store: Store,
  config: RunConfig,
  address: Address,
  noteOf: NoteOf = () => undefined,
): Promise<Tree[]> {
  const { train } = await readStoredQuestions(store, config.run);
  const questions = new Map(train.map((question) => [question.id, question]));
  const groups = await readWantedGroups(store, config, address);
  const latencies = await readLatencies(store, config.run, address.step);
  const tokenizerOf = openTokenizers(store, config);
  return Promise.all(
    groups.map(async (group) => {
      const question = questions.get(group.questionId);
      if (!question) throw new MgrpoError("record-damaged", `question '${group.questionId}' is not in questions.json`);
      const note = noteOf(question);
      const rollouts = await loadRollouts(
        store,
        config,
        { group, question, note, latencies, tokenizerOf },
        address.rollout,
      );
      const [only] = rollouts;
      return address.rollout !== undefined && only
        ? only
        : groupTree(group, config, question, note, rollouts.map(inGroup));
    }),
  );
}

async function readWantedGroups(store: Store, config: RunConfig, { step: wanted, group }: Address) {
  const step = await readBegunStep(store, config.run, wanted);
  if (group !== undefined && group >= step.groups.length)
    throw new MgrpoError("not-found", `step ${wanted} has groups 0 to ${step.groups.length - 1}, not ${group}`);
  const groups = await readGroups(store, step, group === undefined ? undefined : [group]);
  if (groups.length > 0) return groups;
  throw new MgrpoError(
    "not-found",
    group === undefined
      ? `the groups of step ${wanted} have expired: the store keeps them for a limited time`
      : `group ${wanted}/${group} has expired: the store keeps it for a limited time`,
  );
}

/** Under its group, a rollout does not repeat the question. */
function inGroup({ body: _question, note: _note, ...rollout }: Tree): Tree {
  return { ...rollout, folded: true };
}

/** The trees of one rollout, or of all rollouts of the group. */
async function loadRollouts(
  store: Store,
  config: RunConfig,
  {
    tokenizerOf,
    ...parts
  }: Pick<RolloutParts, "group" | "question" | "note" | "latencies"> & {
    readonly tokenizerOf: TokenizerOf;
  },
  only: number | undefined,
): Promise<Tree[]> {
  const { step, group, rolloutsPerQuestion } = parts.group;
  if (only !== undefined && only >= rolloutsPerQuestion)
    throw new MgrpoError("not-found", `group ${step}/${group} has rollouts 0 to ${rolloutsPerQuestion - 1}`);
  const indices = only === undefined ? Array.from({ length: rolloutsPerQuestion }, (_, k) => k) : [only];
  return Promise.all(
    indices.map(async (index): Promise<Tree> => {
      const score = parts.group.rollouts[String(index)];
      const isExcluded = score !== undefined && "excluded" in score;
      const address = { run: config.run, phase: "train", step, group, rollout: index };
      const stored = await readRollout(store, address, isExcluded);
      if (!stored) {
        const title = `rollout ${step}/${group}/${index}`;
        return { title, tags: [withoutOutcome(score)], children: [] };
      }
      const branchTexts = await readBranchTexts(tokenizerOf, stored.outcome);
      return rolloutTree({ index, config, ...parts, ...stored, branchTexts });
    }),
  );
}

/** A rollout may be excluded without an outcome, or with a damaged record. A scored one had an outcome. */
function withoutOutcome(score: RolloutScore | undefined): Tag {
  if (score && "excluded" in score) return { text: `excluded: ${score.excluded}`, tone: "bad" };
  return { text: score ? "its conversation has expired" : "no outcome yet", tone: "faint" };
}
