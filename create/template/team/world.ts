/**
 * @file The world: villages of twelve people, each with a door, a pet, a job and a friend. Village n is always the same.
 * No question names its village, so its answer has to be looked up: it cannot be memorized.
 */
import { stream } from "mgrpo/random";

export const NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kai", "Lea"];

const VALUES = {
  door: ["red", "blue", "green", "white", "black", "yellow", "brown", "grey"],
  pet: ["cat", "dog", "goat", "duck", "horse", "parrot", "rabbit", "snail"],
  job: ["baker", "smith", "tailor", "doctor", "farmer", "painter", "pilot", "teacher"],
};

export const FIELDS = ["door", "pet", "job", "friend"] as const;
export type Field = (typeof FIELDS)[number];
export type Villager = Readonly<Record<Field, string>>;

export function villageOf(n: number): ReadonlyMap<string, Villager> {
  const random = stream("village", n);
  const anyOf = (values: readonly string[]): string => values[random.integer(values.length)] ?? "";
  return new Map(
    NAMES.map((name) => [
      name,
      {
        door: anyOf(VALUES.door),
        pet: anyOf(VALUES.pet),
        job: anyOf(VALUES.job),
        friend: anyOf(NAMES.filter((other) => other !== name)),
      },
    ]),
  );
}

/** A subtask as agents write it: "pet of Ada". Undefined for any other text. */
export function parseTask(text: string): { readonly field: Field; readonly name: string } | undefined {
  const [, asked, name] = /^(\w+) of (\w+)$/.exec(text.trim()) ?? [];
  const field = FIELDS.find((known) => known === asked);
  return field && name ? { field, name } : undefined;
}
