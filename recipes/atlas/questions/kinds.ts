/**
 * @file The kinds of questions: how each is drawn from a world and worded. A draw returns a question with the chain of look-ups that
 * answers it. It returns undefined if the country drawn lacks what the kind needs, such as a second neighbor, or if the question is unusable:
 * it is trivial (but see hopOverConstraints), one of its look-ups has more than one answer, its own answer is easy to guess, it depends on an
 * area that rounds to 0, or it compares equal areas.
 */
import type { Random } from "../../../core/random.ts";
import type { Country } from "../world/countries.ts";
import type { World } from "../world/world.ts";
import { ASKED, type Asked, answersTo, type Condition, factOf, type LookUp } from "./look-up.ts";

export interface Draft {
  readonly prompt: string;
  /** In the order in which they can be made; a later one can use the result of an earlier one. */
  readonly lookUps: readonly LookUp[];
  /** What to calculate from the answers of the two look-ups, in order; absent if the last look-up gives the answer. */
  readonly operator?: "-" | "+";
  readonly answer: string;
  /** Identifies copies among held-out questions: what is looked up, whatever the world, the wording and the operator. */
  readonly chain: string;
}

type Draw = (world: World, random: Random) => Draft | undefined;

/** Level 1 teaches the format; level 2 has two hops, two constraints, or arithmetic on two areas; level 3 combines hops and constraints. */
export const KINDS: Readonly<Record<string, { readonly level: number; readonly draw: Draw }>> = {
  hop1: { level: 1, draw: hop1 },
  hop2: { level: 2, draw: hop2 },
  constraints: { level: 2, draw: constraints },
  compare: { level: 2, draw: compare },
  "hop-constraints": { level: 3, draw: hopOverConstraints },
  hop3: { level: 3, draw: hop3 },
};

/** Maximum number of countries that may share an answer: one shared by more is easy to guess. */
const MAX_SHARED_BY = 4;

function hop1(world: World, random: Random): Draft | undefined {
  const country = anyCountry(world, random);
  if (random.uniform() < 0.4) {
    const condition = random.uniform() < 0.5 ? capitalOf(country) : currencyOf(country);
    return draftIfUsable(world, `Which country ${words(condition)}?`, [countryWith(condition)], [words(condition)]);
  }
  const asked = anyAsked(random);
  return draftIfUsable(
    world,
    `What is the ${asked} of ${country.name}?`,
    [{ ask: asked, of: country.name }],
    [asked, country.name],
  );
}

function hop2(world: World, random: Random): Draft | undefined {
  const country = anyCountry(world, random);
  const condition = random.uniform() < 0.7 ? capitalOf(country) : currencyOf(country);
  const asked = anyAsked(random);
  if (asked === condition.field) return undefined;
  const prompt = `What is the ${asked} of the country that ${words(condition)}?`;
  return draftIfUsable(
    world,
    prompt,
    [countryWith(condition), { ask: asked, of: country.name }],
    [words(condition), asked],
  );
}

function constraints(world: World, random: Random): Draft | undefined {
  const pair = twoConstraints(world, random);
  return (
    pair &&
    draftIfUsable(
      world,
      `Which country ${pair.map(words).join(" and ")}?`,
      [countryWith(...pair)],
      pair.map(words).sort(),
    )
  );
}

/**
 * The chain is the constraints alone: no two held-out questions have the same ones, whatever they ask about the country. A question may ask for
 * the currency that a constraint names.
 */
function hopOverConstraints(world: World, random: Random): Draft | undefined {
  const pair = twoConstraints(world, random);
  const [country] = pair ? answersTo(countryWith(...pair), world) : [];
  if (!pair || country === undefined) return undefined;
  const asked = anyAsked(random);
  const prompt = `What is the ${asked} of the country that ${pair.map(words).join(" and ")}?`;
  return draftIfUsable(world, prompt, [countryWith(...pair), { ask: asked, of: country }], pair.map(words).sort());
}

function hop3(world: World, random: Random): Draft | undefined {
  const first = anyCountry(world, random);
  const neighbor = world.countries.get(oneOf(first.borders, random) ?? "");
  const condition = neighbor && anyFact(neighbor, random);
  const asked = anyAsked(random);
  if (!condition || asked === condition.field) return undefined;
  const prompt = `Of the neighbours of the country that ${words(capitalOf(first))}, one ${words(condition)}: what is its ${asked}?`;
  return draftIfUsable(
    world,
    prompt,
    [
      countryWith(capitalOf(first)),
      countryWith({ field: "borders", value: first.name }, condition),
      { ask: asked, of: neighbor.name },
    ],
    [words(capitalOf(first)), words(condition), asked],
  );
}

function compare(world: World, random: Random): Draft | undefined {
  const [a, b] = [anyCountry(world, random), anyCountry(world, random)];
  if (a.area === b.area || Math.min(a.area, b.area) === 0) return undefined;
  const [larger, smaller] = a.area > b.area ? [a, b] : [b, a];
  const minus = random.uniform() < 0.5;
  const [first, second] = minus ? [larger, smaller] : [a, b];
  return {
    prompt: minus
      ? `How much larger is ${first.name} than ${second.name}?`
      : `What is the total area of ${first.name} and ${second.name}?`,
    lookUps: [
      { ask: "area", of: first.name },
      { ask: "area", of: second.name },
    ],
    operator: minus ? "-" : "+",
    answer: String(minus ? first.area - second.area : first.area + second.area),
    chain: [a.name, b.name].sort().join(" & "),
  };
}

/** The draft; undefined if a look-up has no unique answer, or if the last answer is easy to guess or is an area that rounds to 0. */
function draftIfUsable(
  world: World,
  prompt: string,
  lookUps: readonly LookUp[],
  chain: readonly string[],
): Draft | undefined {
  const found = lookUps.map((lookUp) => answersTo(lookUp, world));
  const last = lookUps.at(-1);
  const answer = found.at(-1)?.[0];
  if (found.some((answers) => answers.length !== 1) || last === undefined || answer === undefined) return undefined;
  if (last.ask !== "country" && (answer === "0" || sharedBy(world, last.ask, answer) > MAX_SHARED_BY)) return undefined;
  return { prompt, lookUps, answer, chain: chain.join(" & ") };
}

function twoConstraints(world: World, random: Random): [Condition, Condition] | undefined {
  const country = anyCountry(world, random);
  const [a, b] = random.choose(country.borders.length, 2).map((i) => country.borders[i]);
  if (a === undefined) return undefined;
  const first: Condition = { field: "borders", value: a };
  const second: Condition | undefined =
    random.uniform() < 0.5 ? (b === undefined ? undefined : { field: "borders", value: b }) : anyFact(country, random);
  return second && [first, second];
}

const countryWith = (...where: Condition[]): LookUp => ({ ask: "country", where });
const capitalOf = (country: Country): Condition => ({ field: "capital", value: country.capital });
const currencyOf = (country: Country): Condition => ({ field: "currency", value: country.currency });
const anyAsked = (random: Random): Asked => ASKED[random.integer(ASKED.length)] as Asked;
const oneOf = <T>(list: readonly T[], random: Random): T | undefined => list[random.integer(list.length)];

function anyFact(country: Country, random: Random): Condition | undefined {
  if (random.uniform() < 0.5) return currencyOf(country);
  const language = oneOf(country.languages, random);
  return language === undefined ? undefined : { field: "language", value: language };
}

function anyCountry(world: World, random: Random): Country {
  return oneOf([...world.countries.values()], random) as Country;
}

function words({ field, value }: Condition): string {
  return {
    capital: `has the capital ${value}`,
    borders: `borders ${value}`,
    currency: `uses the ${value}`,
    language: `speaks ${value}`,
  }[field];
}

function sharedBy(world: World, asked: Asked, value: string): number {
  return [...world.countries.values()].filter((country) => factOf(country, asked) === value).length;
}
