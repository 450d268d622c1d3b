/** @file The views of a step, a group and a rollout, from the group's records and the conversations in the store. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";
import { type GroupRecord, type RolloutScore, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { whyNoSignal } from "../../core/monitoring/group-signal.ts";
import type { Store } from "../../core/ports.ts";
import { learningAgents, trainedBatch } from "../../core/training/step-plan.ts";
import { type GroupOrder, inOrder, pageCount, rowsOfPage } from "../../ui/group-order.ts";
import type { GroupRow, GroupView, QuestionView, RolloutCell, RolloutView, StepView } from "../../ui/views.ts";
import { readStoredQuestions } from "../conversations.ts";
import { readBegunStep, readGroups } from "../local/read-records.ts";
import type { NoteOf } from "../notes.ts";
import { loadTrees } from "../show/load.ts";
import type { Source } from "../show/source.ts";

export interface GroupsPage {
  readonly order: GroupOrder;
  readonly page: number;
}

/** With order `group`, only the groups on the page are read. Any other order needs all groups. */
export async function stepView(
  source: Source,
  step: number,
  { order, page }: GroupsPage,
  noteOf: NoteOf,
): Promise<StepView> {
  const { config } = source;
  const summary = (await source.summaries()).find((one) => one.step === step) ?? null;
  return source.read(async (store) => {
    const record = await readBegunStep(store, config.run, step);
    const all = record.groups.map((_, group) => group);
    const wanted = order === "group" ? rowsOfPage(all, page) : all;
    const rows = inOrder(await readGroupRows(store, config, record, wanted, noteOf), order);
    const groups = [...(order === "group" ? rows : rowsOfPage(rows, page))];
    const hasNext = (await store.table.get(tableKeys.step(config.run, step + 1))) !== undefined;
    const pages = pageCount(all.length);
    const about = { step, state: record.state, summary, hasNext };
    return { ...about, groups, page, pages };
  });
}

export async function groupView(source: Source, step: number, group: number, noteOf: NoteOf): Promise<GroupView> {
  const { config } = source;
  return source.read(async (store) => {
    const row = await readGroupRow(store, config, { step, group }, noteOf);
    const trees = await loadTrees(store, config, { step, group }, noteOf);
    return { step, row, trees: trees.flatMap(({ children }) => children) };
  });
}

export async function rolloutView(
  source: Source,
  step: number,
  group: number,
  rollout: number,
  noteOf: NoteOf,
): Promise<RolloutView> {
  const { config } = source;
  return source.read(async (store) => {
    const row = await readGroupRow(store, config, { step, group }, noteOf);
    const [tree] = await loadTrees(store, config, { step, group, rollout }, noteOf);
    if (!tree) throw new MgrpoError("not-found", `rollout ${step}/${group}/${rollout} is not in the store`);
    return { step, row, rollout, tree, sameQuestion: await readSameQuestion(store, config.run, step, row.question.id) };
  });
}

/** The other steps that asked this question, each with its first group that did. */
async function readSameQuestion(store: Store, run: string, except: number, question: string) {
  const items = await store.table.query(tableKeys.run(run).pk, tablePrefixes.steps);
  return items.flatMap((item) => {
    const { step, groups } = parse(StepRecord, item, `STEP of ${run}`);
    const group = groups.indexOf(question);
    return step === except || group < 0 ? [] : [{ step, group }];
  });
}

async function readGroupRow(
  store: Store,
  config: RunConfig,
  { step, group }: { readonly step: number; readonly group: number },
  noteOf: NoteOf,
): Promise<GroupRow> {
  const [row] = await readGroupRows(store, config, await readBegunStep(store, config.run, step), [group], noteOf);
  if (row) return row;
  throw new MgrpoError("not-found", `step ${step} has no group ${group}, or it has expired`);
}

/** The wanted groups of a step, without those that have expired. */
export async function readGroupRows(
  store: Store,
  config: RunConfig,
  step: StepRecord,
  wanted: readonly number[],
  noteOf: NoteOf,
): Promise<GroupRow[]> {
  const { train } = await readStoredQuestions(store, config.run);
  const questions = new Map(train.map((question) => [question.id, question]));
  return (await readGroups(store, step, wanted)).map((group) => {
    const question = questions.get(group.questionId);
    if (!question) throw new MgrpoError("record-damaged", `question '${group.questionId}' is not in questions.json`);
    return groupRow(config, group, questionView(question, noteOf));
  });
}

export function questionView(question: Question, noteOf: NoteOf): QuestionView {
  const { id, kind, level, prompt, answer } = question;
  return { id, kind, level, prompt, answer, note: noteOf(question) ?? null };
}

function groupRow({ main, agents }: RunConfig, group: GroupRecord, question: QuestionView): GroupRow {
  const names = learningAgents({ agents });
  const batch = group.finalized[main];
  const trained = trainedBatch({ agents }, group, main);
  return {
    group: group.group,
    question,
    noSignal: Object.fromEntries(names.map((name) => [name, whyNoSignal(group, name, main) ?? null])),
    mean: batch?.mean ?? null,
    std: batch?.std ?? null,
    rollouts: Array.from({ length: group.rolloutsPerQuestion }, (_, rollout) => {
      const i = trained?.trajectories.indexOf(rollout) ?? -1;
      return cellOf(rollout, group.rollouts[String(rollout)], trained?.advantages[i] ?? null);
    }),
  };
}

function cellOf(rollout: number, score: RolloutScore | undefined, advantage: number | null): RolloutCell {
  const empty = { rollout, reward: null, advantage: null, tokens: 0, masked: false, calls: {}, reason: "" };
  if (!score) return { ...empty, outcome: "open" };
  if ("excluded" in score) return { ...empty, outcome: "lost", reason: score.excluded };
  const { reward, correct, wellFormed, tokens, masked = false, invocations } = score;
  const outcome = !wellFormed ? "malformed" : correct === 1 ? "correct" : correct > 0 ? "partly" : "wrong";
  const calls = Object.fromEntries(Object.entries(invocations).map(([sub, made]) => [sub, made.length]));
  return { ...empty, outcome, reward, advantage, tokens, masked, calls };
}
