/**
 * @file What the base models imitate before M-GRPO trains them: the format of every turn, and a policy that often gets each decision wrong.
 * Every correct decision stays likely enough for sampling to find it. The villages of demonstrations are used nowhere else.
 */
import { answerTurn, callTurn } from "mgrpo/base-model";
import { type Random, stream } from "mgrpo/random";
import type { Demonstration } from "mgrpo/recipe";
import { draftOf, promptOf } from "./questions.ts";
import { lookedUp } from "./tools.ts";
import { FIELDS, type Field, NAMES, villageOf } from "./world.ts";

const FIRST_VILLAGE = 1_000_000;

/** How often the friend is skipped, and how often each other decision is random. A random decision may still be correct. */
const FAULTS = { wrongField: 0.2, skipFriend: 0.5, wrongPerson: 0.2, wrongReport: 0.3 };

type Turn = Demonstration["turns"][number];

/** The planner: asks the searcher for the friend if the question has one, then for the field, and answers with the report. */
export function* plannerDemonstrations(): Generator<Demonstration> {
  for (let village = FIRST_VILLAGE; ; village++) {
    const random = stream("planner", village);
    const draft = draftOf(village, 0);
    const people = villageOf(village);
    const turns: Turn[] = [];
    const ask = (field: Field, name: string): string => {
      const report = people.get(name)?.[field] ?? "";
      const call = { name: "delegate", arguments: { agent: "searcher", task: `${field} of ${name}` } };
      turns.push({ text: callTurn(call), responses: [report] });
      return report;
    };
    const skipsFriend = draft.level === 1 || errs(random, FAULTS.skipFriend);
    const person = skipsFriend ? draft.name : ask("friend", draft.name);
    const field = errs(random, FAULTS.wrongField) ? anyOf(FIELDS.slice(0, 3), random) : draft.field;
    turns.push({ text: answerTurn(ask(field, person)), responses: [] });
    yield { prompt: promptOf(draft), turns };
  }
}

/** The searcher: looks up the person of its task and reports the field. */
export function* searcherDemonstrations(): Generator<Demonstration> {
  for (let village = FIRST_VILLAGE; ; village++) {
    const random = stream("searcher", village);
    const [field, name] = [anyOf(FIELDS, random), anyOf(NAMES, random)];
    const person = errs(random, FAULTS.wrongPerson) ? anyOf(NAMES, random) : name;
    const reported = errs(random, FAULTS.wrongReport) ? anyOf(FIELDS, random) : field;
    yield {
      prompt: `${field} of ${name}`,
      turns: [
        { text: callTurn({ name: "lookup", arguments: { name: person } }), responses: [lookedUp(village, person)] },
        { text: answerTurn(villageOf(village).get(person)?.[reported] ?? ""), responses: [] },
      ],
    };
  }
}

const errs = (random: Random, share: number): boolean => random.uniform() < share;

function anyOf<T>(values: readonly T[], random: Random): T {
  return values[random.integer(values.length)] as T;
}
