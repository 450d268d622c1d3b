/** @file A run whose texts try to be more than text: markup, scripts, links, right-to-left overrides and control characters. */
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { RecordedRun } from "../cli/recorded-run.ts";
import { finishedRun, groups, question } from "../cli/records.ts";

export const MARKUP = [
  "<script>window.owned = 1</script>",
  '<img src="x" onerror="window.owned = 2">',
  '<a href="javascript:window.owned = 3">click</a>',
  '<svg onload="window.owned = 4"></svg>',
  '<iframe srcdoc="<script>parent.owned = 5</script>"></iframe>',
  '<link rel="stylesheet" href="https://evil.example/x.css"><style>* { display: none }</style>',
  "javascript:window.owned = 6",
].join(" ");
/** A right-to-left override, an unclosed isolate, an escape sequence, a bell, a NUL and a line separator. */
export const CONTROLS = "\u202egnp.exe\u2067 \u001b[2J \u0007 \u0000 \u2028 end";
const HOSTILE = `${MARKUP} ${CONTROLS}`;

/** How a page shows the recipe's note on every question of the run, up to the control characters. */
export const SHOWN_NOTE = `Note: facts are <shuffled> ${MARKUP}`;
/** The source of the run's recipe, for `recipe.mjs` in the recipe's folder. */
export const HOSTILE_RECIPE = `export const recipe = {
  name: "hostile",
  config: {},
  questions() {},
  note: () => ${JSON.stringify(`facts are <shuffled> ${HOSTILE}`)},
};
`;

const hostile = (conversation: Conversation): Conversation => ({
  ...conversation,
  prompt: HOSTILE,
  answer: HOSTILE,
  turns: conversation.turns.map(({ calls, responses }) => ({
    text: HOSTILE,
    calls: calls.map((call) => ({ ...call, arguments: { ...call.arguments, query: HOSTILE } })),
    responses: responses.map((response) => ({ ...response, text: HOSTILE })),
  })),
});

const { outcome, invocation } = finishedRun;
const [first, second] = groups;
if (outcome.status !== "finished" || !first || !second) throw new Error("records.ts holds no finished rollout");

export const hostileRun: RecordedRun = {
  config: { recipe: "./hostile" },
  reason: HOSTILE,
  groups: [first, { ...second, rollouts: { ...second.rollouts, "1": { excluded: HOSTILE } } }],
  questions: {
    train: [
      { ...question("q1"), prompt: HOSTILE, answer: HOSTILE, kind: "<b>hop1</b>" },
      { ...question("q2"), prompt: CONTROLS },
    ],
    heldOut: [],
  },
  outcome: { ...outcome, conversation: hostile(outcome.conversation) },
  invocation: { ...invocation, conversation: hostile(invocation.conversation) },
};
