/**
 * @file What the base models imitate: the format of every turn, and a policy that sometimes errs, in villages used for nothing else. The
 * planner delegates a house in one task, or each of its people in a task of their own: rollouts of one question invoke the searcher very
 * different numbers of times.
 */
import { calculateText } from "../../adapters/tools/calculate.ts";
import { type Random, stream } from "../../core/random.ts";
import type { Demonstration, DemonstrationTurn } from "../../core/recipe.ts";
import { answerTurn, callTurn } from "../small-models/turns.ts";
import { draftOf, FIRST_DEMONSTRATION_VILLAGE, PEOPLE_COUNTS, promptOf, type QuestionDraft } from "./questions.ts";
import { lookedUp, surveyed } from "./tools.ts";
import {
  entryOf,
  FIELDS,
  type House,
  houseReport,
  housesOf,
  type LedgerEntry,
  type LedgerField,
  NAMES,
  pageOf,
  personReport,
  QUANTITY_LIMIT,
  taskOf,
} from "./world.ts";

/** The most delegations in one turn. */
export const CALLS_PER_TURN = 5;

/** How often the planner delegates a house in one task. */
const TOGETHER = 0.5;

/** How often each decision goes wrong. What is then drawn at random, such as a field or a person, may still be the right one. */
const PLANNER_ERROR_RATES = { guess: 0.05, stopEarly: 0.03, leaveOut: 0.005, wrongField: 0.005, noCalculation: 0.05 };
const PERSON_ERROR_RATES = { wrongPerson: 0.1, wrongNumber: 0.15, wrongLine: 0.05, shortPage: 0.2 };
const HOUSE_ERROR_RATES = { wrongHouse: 0.25, wrongNumber: 0.4 };

export function* plannerDemonstrations(): Generator<Demonstration, never> {
  for (let village = FIRST_DEMONSTRATION_VILLAGE; ; village++) {
    const random = stream("tally-planner", village);
    yield planned(draftOf(village, anyOf(PEOPLE_COUNTS, random), random), random);
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
  const { turns: delegations, found } = draft.house ? delegated(draft, draft.house, random) : atHand(draft);
  turns.push(...delegations);
  if (found.length < 2) return end(found[0] ?? guess());
  if (errs(random, PLANNER_ERROR_RATES.noCalculation)) return end(guess());
  const expression = found.join(" + ");
  const total = calculateText(expression);
  turns.push({ text: callTurn({ name: "calculate", arguments: { expression } }), responses: [total] });
  return end(total);
}

interface Delegations {
  readonly turns: readonly DemonstrationTurn[];
  /** The numbers that come back. */
  readonly found: readonly number[];
}

const atHand = ({ numbers }: QuestionDraft): Delegations => ({ turns: [], found: numbers });

function delegated({ village, field }: QuestionDraft, house: House, random: Random): Delegations {
  return random.uniform() < TOGETHER
    ? together(village, field, house, random)
    : oneByOne(village, field, house, random);
}

function together(village: number, field: LedgerField, { name }: House, random: Random): Delegations {
  const asked = askedFor(field, random);
  const total = (entryOf(village, name) as LedgerEntry)[asked];
  return { turns: [{ text: callTurn(delegation(asked, name)), responses: [houseReport(total)] }], found: [total] };
}

/** A few people per turn. */
function oneByOne(village: number, field: LedgerField, { people }: House, random: Random): Delegations {
  const turns: DemonstrationTurn[] = [];
  const found: number[] = [];
  const included = people.filter(() => !errs(random, PLANNER_ERROR_RATES.leaveOut));
  for (let first = 0; first < included.length; first += CALLS_PER_TURN) {
    if (first > 0 && errs(random, PLANNER_ERROR_RATES.stopEarly)) break;
    const calls = included.slice(first, first + CALLS_PER_TURN).map((name) => {
      return { name, asked: askedFor(field, random), entry: entryOf(village, name) as LedgerEntry };
    });
    found.push(...calls.map(({ entry, asked }) => entry[asked]));
    turns.push({
      text: callTurn(...calls.map(({ name, asked }) => delegation(asked, name))),
      responses: calls.map(({ entry, asked }) => personReport(entry[asked], pageOf(entry))),
    });
  }
  return { turns, found };
}

const askedFor = (field: LedgerField, random: Random): LedgerField =>
  errs(random, PLANNER_ERROR_RATES.wrongField) ? anyOf(FIELDS, random) : field;

const delegation = (field: LedgerField, name: string) => ({
  name: "delegate",
  arguments: { agent: "searcher", task: taskOf(field, name) },
});

/** Half of the tasks are about a person, the others about a house. */
export function* searcherDemonstrations(): Generator<Demonstration, never> {
  for (let village = FIRST_DEMONSTRATION_VILLAGE; ; village++) {
    const random = stream("tally-searcher", village);
    const field = anyOf(FIELDS, random);
    yield random.uniform() < 0.5 ? aboutPerson(village, field, random) : aboutHouse(village, field, random);
  }
}

function aboutPerson(village: number, field: LedgerField, random: Random): Demonstration {
  const name = anyOf(NAMES, random);
  const person = errs(random, PERSON_ERROR_RATES.wrongPerson) ? anyOf(NAMES, random) : name;
  const entry = entryOf(village, person) as LedgerEntry;
  const read = errs(random, PERSON_ERROR_RATES.wrongNumber) ? anyOf(FIELDS, random) : field;
  const lines = pageOf(entry)
    .split(", ")
    .map((line, i) =>
      errs(random, PERSON_ERROR_RATES.wrongLine) ? `${FIELDS[i]} ${random.integer(QUANTITY_LIMIT)}` : line,
    );
  const length = errs(random, PERSON_ERROR_RATES.shortPage) ? 1 + random.integer(lines.length - 1) : lines.length;
  return {
    prompt: taskOf(field, name),
    turns: [
      { text: callTurn({ name: "lookup", arguments: { name: person } }), responses: [lookedUp(village, person)] },
      { text: answerTurn(personReport(entry[read], lines.slice(0, length).join(", "))), responses: [] },
    ],
  };
}

function aboutHouse(village: number, field: LedgerField, random: Random): Demonstration {
  const houses = housesOf(village).map(({ name }) => name);
  const name = anyOf(houses, random);
  const house = errs(random, HOUSE_ERROR_RATES.wrongHouse) ? anyOf(houses, random) : name;
  const read = errs(random, HOUSE_ERROR_RATES.wrongNumber) ? anyOf(FIELDS, random) : field;
  return {
    prompt: taskOf(field, name),
    turns: [
      { text: callTurn({ name: "survey", arguments: { house } }), responses: [surveyed(village, house)] },
      { text: answerTurn(houseReport((entryOf(village, house) as LedgerEntry)[read])), responses: [] },
    ],
  };
}

const errs = (random: Random, share: number): boolean => random.uniform() < share;

const anyOf = <T>(values: readonly T[], random: Random): T => values[random.integer(values.length)] as T;
