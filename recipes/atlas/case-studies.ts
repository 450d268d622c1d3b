/**
 * @file The paper's two case studies, measured on held-out questions. The paper shows single questions: a deduction about a cube,
 * for which the untrained main agent browses and the trained one reasons; and a fish described by several facts, of which the untrained
 * agent delegates a few and the trained one all.
 */
import type { Conversation } from "../../core/contracts/conversation.ts";
import { DELEGATE } from "../../core/conversation/toolbox.ts";
import type { CaseStudy } from "../../core/recipe.ts";
import { factsOf } from "./questions/facts.ts";
import { type Condition, type LookUp, parseTask } from "./questions/look-up.ts";
import { same } from "./rewards.ts";

/** The kind of question that asks for a number that no page states. */
const CALCULATED = "compare";
const LOOKING_UP: ReadonlySet<string> = new Set([DELEGATE, "search", "visit"]);

const toolChoice: CaseStudy = {
  name: "tool choice",
  expected: "facts are looked up; what needs calculating, and nothing else, is calculated",
  checks(question, { conversation }) {
    // A question that atlas did not draw, such as a user's own, has no look-ups.
    if (factsOf(question).lookUps.length === 0) return [];
    const called = callsOf(conversation).map(({ name }) => name);
    const lookedUp = called.some((name) => LOOKING_UP.has(name));
    return [lookedUp && called.includes("calculate") === (question.kind === CALCULATED)];
  },
};

/**
 * For a question that identifies a country by several facts, checks the delegations that ask for a country or do not parse. Excludes
 * delegations of a link that needs only one fact: the first of a longer chain.
 */
const delegation: CaseStudy = {
  name: "delegation",
  expected: "a delegation that asks for a country identified by several facts names all of them",
  checks(question, { conversation }) {
    const { lookUps } = factsOf(question);
    const chain = lookUps.map(({ task }, i): Link => {
      return { where: conditionsOf(parseTask(task)), earlierAnswers: lookUps.slice(0, i).map(({ answer }) => answer) };
    });
    const several = chain.filter(({ where }) => where.length > 1);
    if (several.length === 0) return [];
    const tasks = callsOf(conversation)
      .filter(({ name }) => name === DELEGATE)
      .map((call) => parseTask(String(call.arguments["task"] ?? "")))
      .filter((lookUp) => lookUp === undefined || lookUp.ask === "country");
    return tasks.flatMap((lookUp) => {
      const asked = conditionsOf(lookUp);
      if (chain.some((link) => link.where.length === 1 && asked.length === 1 && includesAll(asked, link))) return [];
      return [several.some((link) => includesAll(asked, link))];
    });
  },
};

export const caseStudies: readonly CaseStudy[] = [toolChoice, delegation];

/** A look-up of a question's chain. */
interface Link {
  /** The conditions on the country that it asks for; empty if it asks for a fact. */
  readonly where: readonly Condition[];
  /** The correct answers of the look-ups before it. */
  readonly earlierAnswers: readonly string[];
}

/**
 * Whether `asked` includes all conditions of the link. If a condition's value is the answer to an earlier look-up, only its field has to
 * match: the agent may have found a wrong answer.
 */
function includesAll(asked: readonly Condition[], { where, earlierAnswers }: Link): boolean {
  return where.every(({ field, value }) => {
    const isEarlierAnswer = earlierAnswers.some((answer) => same(answer, value));
    return asked.some((one) => one.field === field && (isEarlierAnswer || same(one.value, value)));
  });
}

/** Empty for a look-up of a fact. */
function conditionsOf(lookUp: LookUp | undefined): readonly Condition[] {
  return lookUp?.ask === "country" ? lookUp.where : [];
}

function callsOf(conversation: Conversation) {
  return conversation.turns.flatMap(({ calls }) => calls);
}
