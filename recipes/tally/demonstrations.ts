/**
 * @file What the base models imitate: the format of every turn, and a policy that sometimes errs, in villages used for nothing else. A
 * planner that stops early or leaves people out makes rollouts of one question call the searcher very different numbers of times.
 */
import { calculateText } from "../../adapters/tools/calculate.ts";
import { type Random, stream } from "../../core/random.ts";
import type { Demonstration, DemonstrationTurn } from "../../core/recipe.ts";
import { answerTurn, callTurn } from "../small-models/turns.ts";
import { draftOf, FIRST_DEMONSTRATION_VILLAGE, INVOCATION_COUNTS, promptOf, type QuestionDraft } from "./questions.ts";
import { lookedUp } from "./tools.ts";
import {
  entryOf,
  FIELDS,
  type LedgerEntry,
  type LedgerField,
  NAMES,
  pageOf,
  QUANTITY_LIMIT,
  reportOf,
  taskOf,
} from "./world.ts";

/** The most delegations in one turn. */
export const CALLS_PER_TURN = 4;

/** How often each decision goes wrong. What is then drawn at random, such as a field or a person, may still be the right one. */
const PLANNER_ERROR_RATES = { guess: 0.1, stopEarly: 0.12, leaveOut: 0.04, wrongField: 0.03, noCalculation: 0.25 };
const SEARCHER_ERROR_RATES = { wrongPerson: 0.1, wrongNumber: 0.15, wrongLine: 0.05, shortPage: 0.2 };

export function* plannerDemonstrations(): Generator<Demonstration, never> {
  for (let village = FIRST_DEMONSTRATION_VILLAGE; ; village++) {
    const random = stream("tally-planner", village);
    const people = INVOCATION_COUNTS[random.integer(INVOCATION_COUNTS.length)] as number;
    yield planned(draftOf(village, people, random), random);
  }
}

function planned(draft: QuestionDraft, random: Random): Demonstration {
  const turns: DemonstrationTurn[] = [];
  const end = (answer: string | number): Demonstration => ({
    prompt: promptOf(draft),
    turns: [...turns, { text: answerTurn(String(answer)), responses: [] }],
  });
  const guess = () => random.integer(QUANTITY_LIMIT * Math.max(1, draft.numbers.length));
  if (errs(random, PLANNER_ERROR_RATES.guess)) return end(guess());
  const { turns: delegations, found } = delegated(draft, random);
  turns.push(...delegations);
  const numbers = draft.names.length > 0 ? found : draft.numbers;
  if (numbers.length < 2) return end(numbers[0] ?? guess());
  if (errs(random, PLANNER_ERROR_RATES.noCalculation)) return end(guess());
  const expression = numbers.join(" + ");
  const total = calculateText(expression);
  turns.push({ text: callTurn({ name: "calculate", arguments: { expression } }), responses: [total] });
  return end(total);
}

/** The delegations, a few people at a time, and the numbers that come back. */
function delegated(
  { village, field, names }: QuestionDraft,
  random: Random,
): { turns: DemonstrationTurn[]; found: number[] } {
  const turns: DemonstrationTurn[] = [];
  const found: number[] = [];
  const included = names.filter(() => !errs(random, PLANNER_ERROR_RATES.leaveOut));
  for (let first = 0; first < included.length; first += CALLS_PER_TURN) {
    if (first > 0 && errs(random, PLANNER_ERROR_RATES.stopEarly)) break;
    const calls = included.slice(first, first + CALLS_PER_TURN).map((name) => {
      const chosen = errs(random, PLANNER_ERROR_RATES.wrongField) ? anyOf(FIELDS, random) : field;
      return { name, field: chosen, entry: entryOf(village, name) as LedgerEntry };
    });
    found.push(...calls.map(({ entry, field: chosen }) => entry[chosen]));
    turns.push({
      text: callTurn(
        ...calls.map(({ name, field: chosen }) => ({
          name: "delegate",
          arguments: { agent: "searcher", task: taskOf(chosen, name) },
        })),
      ),
      responses: calls.map(({ entry, field: chosen }) => reportOf(entry[chosen], pageOf(entry))),
    });
  }
  return { turns, found };
}

export function* searcherDemonstrations(): Generator<Demonstration, never> {
  for (let village = FIRST_DEMONSTRATION_VILLAGE; ; village++) {
    const random = stream("tally-searcher", village);
    const [field, name] = [anyOf(FIELDS, random), anyOf(NAMES, random)];
    const person = errs(random, SEARCHER_ERROR_RATES.wrongPerson) ? anyOf(NAMES, random) : name;
    yield {
      prompt: taskOf(field, name),
      turns: [
        { text: callTurn({ name: "lookup", arguments: { name: person } }), responses: [lookedUp(village, person)] },
        { text: answerTurn(reported(entryOf(village, person) as LedgerEntry, field, random)), responses: [] },
      ],
    };
  }
}

function reported(entry: LedgerEntry, field: LedgerField, random: Random): string {
  const read = errs(random, SEARCHER_ERROR_RATES.wrongNumber) ? anyOf(FIELDS, random) : field;
  const lines = pageOf(entry)
    .split(", ")
    .map((line, i) =>
      errs(random, SEARCHER_ERROR_RATES.wrongLine) ? `${FIELDS[i]} ${random.integer(QUANTITY_LIMIT)}` : line,
    );
  const length = errs(random, SEARCHER_ERROR_RATES.shortPage) ? 1 + random.integer(lines.length - 1) : lines.length;
  return reportOf(entry[read], lines.slice(0, length).join(", "));
}

const errs = (random: Random, share: number): boolean => random.uniform() < share;

const anyOf = <T>(values: readonly T[], random: Random): T => values[random.integer(values.length)] as T;
