/**
 * @file Searches the rollouts of a step: by what happened in them, and by text in any conversation of the team. A request reads at most a
 * page of rollouts, or one group, so that a step of any size can be searched.
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Invocation } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import type { RolloutCell, RolloutFilter, SearchView } from "../../ui/views.ts";
import { readRollout } from "../conversations.ts";
import { readBegunStep } from "../local/read-records.ts";
import type { NoteOf } from "../notes.ts";
import { readGroupRows } from "./step.ts";

export interface Search {
  readonly text: string;
  readonly filter: RolloutFilter;
  /** The group at which this page begins. */
  readonly from: number;
}

type Hit = SearchView["hits"][number];

/** Maximum number of rollouts that a request reads, rounded down to whole groups, but at least one group. */
const PAGE_ROLLOUTS = 256;
/** On each side of a match. */
const CONTEXT_CHARACTERS = 80;

export async function searchStep(
  store: Store,
  config: RunConfig,
  step: number,
  { text, filter, from }: Search,
  noteOf: NoteOf,
): Promise<SearchView> {
  const record = await readBegunStep(store, config.run, step);
  const next = from + Math.max(1, Math.floor(PAGE_ROLLOUTS / config.rolloutsPerQuestion));
  const wanted = record.groups.map((_, group) => group).slice(from, next);
  const groups = await readGroupRows(store, config, record, wanted, noteOf);
  const page = groups.flatMap(({ group, question, rollouts }) => rollouts.map((cell) => ({ group, question, cell })));
  const { run, main } = config;
  const found = await Promise.all(
    page.map(async ({ group, question, cell }): Promise<Hit[]> => {
      if (!mayMatch(cell, filter)) return [];
      const { rollout, outcome, reward } = cell;
      const hit = { group, rollout, outcome, reward, note: question.note };
      if (text === "" && DECIDED.has(filter)) return [{ ...hit, agent: main, excerpt: cell.reason || question.prompt }];
      const stored = await readRollout(store, { run, phase: "train", step, group, rollout }, outcome === "lost");
      if (!stored || stored.outcome.status === "failed") return [];
      const match = firstMatch(stored.outcome.conversation, stored.invocations, main, { text, filter });
      return match ? [{ ...hit, ...match }] : [];
    }),
  );
  return { hits: found.flat(), next: next < record.groups.length ? next : null };
}

/** Filters that the group's record alone decides. */
const DECIDED: ReadonlySet<RolloutFilter> = new Set(["any", "wrong", "malformed", "lost", "correct"]);

function mayMatch({ outcome }: RolloutCell, filter: RolloutFilter): boolean {
  if (outcome === "open") return false;
  if (filter === "wrong") return outcome === "wrong" || outcome === "partly";
  if (filter === "correct" || filter === "malformed" || filter === "lost") return outcome === filter;
  return true;
}

interface Match {
  readonly agent: string;
  readonly excerpt: string;
}

function firstMatch(
  conversation: Conversation,
  invocations: ReadonlyMap<string, Invocation>,
  main: string,
  { text, filter }: Pick<Search, "text" | "filter">,
): Match | undefined {
  const conversations = [
    { agent: main, conversation },
    ...[...invocations.values()].map(({ request, conversation }) => ({ agent: request.agent, conversation })),
  ];
  for (const { agent, conversation } of conversations) {
    if (!happened(conversation, filter)) continue;
    const excerpt = excerptOf(conversation, text);
    if (excerpt !== undefined) return { agent, excerpt };
  }
  return undefined;
}

function happened(conversation: Conversation, filter: RolloutFilter): boolean {
  if (filter === "cut") return conversation.stop === "token-limit" || conversation.stop === "turn-limit";
  if (filter === "tool-failed") return failedResponse(conversation) !== undefined;
  return true;
}

/** A heuristic: responses have no failure flag, so it matches common opening words. A text that opens with `No` or `Nothing` matches too. */
const FAILED =
  /^[^\p{L}\p{N}]*(error|no |not |nothing|cannot|can't|could not|failed|unable|unknown|invalid|the \w+ (cannot|could not|failed|is not))/iu;

const failedResponse = ({ turns }: Conversation): string | undefined =>
  turns.flatMap(({ responses }) => responses).find(({ text }) => FAILED.test(text))?.text;

/** Undefined: the text does not occur. */
function excerptOf(conversation: Conversation, text: string): string | undefined {
  const all = [
    conversation.prompt,
    ...conversation.turns.flatMap((turn) => [turn.text, ...turn.responses.map((response) => response.text)]),
  ];
  if (text === "") {
    const shown = failedResponse(conversation) ?? conversation.answer ?? conversation.prompt;
    return part(shown, 0, 2 * CONTEXT_CHARACTERS);
  }
  // `toLowerCase` and `normalize` can change the length of a text, so indices would not be those of the original.
  const forms = ["NFC", "NFD"].map((form) => text.normalize(form).replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const wanted = new RegExp(forms.join("|"), "iu");
  for (const one of all) {
    const found = wanted.exec(one);
    if (!found) continue;
    const end = found.index + found[0].length;
    return part(one, Math.max(0, found.index - CONTEXT_CHARACTERS), end + CONTEXT_CHARACTERS);
  }
  return undefined;
}

/** A slice without the half of a surrogate pair at either end. */
const part = (text: string, start: number, end: number): string =>
  text.slice(start, end).replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
