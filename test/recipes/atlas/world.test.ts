/** @file Laws of the worlds: world 0 is the real one; the others keep its structure and permute its facts. */
import { expect, test } from "vitest";
import { stream } from "../../../core/random.ts";
import { type Country, countries } from "../../../recipes/atlas/world/countries.ts";
import { pagesOf } from "../../../recipes/atlas/world/pages.ts";
import { readPage } from "../../../recipes/atlas/world/read-page.ts";
import { type World, worldOf } from "../../../recipes/atlas/world/world.ts";

const real = worldOf(0);
const permuted = [1, 2, 12, 101].map(worldOf);
const listed = (world: World) => [...world.countries.values()];
const bag = (world: World, fact: (country: Country) => string) => listed(world).map(fact).sort();

test("world 0 is the real one", () => {
  expect(countries.length).toBeGreaterThan(180);
  expect(real.countries.get("Jordan")).toEqual({
    name: "Jordan",
    capital: "Amman",
    region: "Western Asia",
    currency: "Jordanian dinar",
    languages: ["Arabic"],
    area: 89,
    borders: ["Iraq", "Israel", "Saudi Arabia", "Syria"],
  });
});

test("permuted worlds keep the names and permute the facts", () => {
  for (const world of permuted) {
    expect([...world.countries.keys()]).toEqual([...real.countries.keys()]);
    for (const fact of ["capital", "region", "currency", "area", "languages"] as const) {
      expect(bag(world, (country) => String(country[fact]))).toEqual(bag(real, (country) => String(country[fact])));
      const kept = listed(world).filter(
        ({ name, [fact]: value }) => String(real.countries.get(name)?.[fact]) === String(value),
      );
      expect(kept.length, `${fact} of world ${world.number}`).toBeLessThan(0.25 * countries.length);
    }
  }
});

test("borders in a permuted world are symmetric, as many as in the real one, and differ for over 100 countries", () => {
  for (const world of permuted) {
    for (const country of listed(world)) {
      for (const neighbor of country.borders) expect(world.countries.get(neighbor)?.borders).toContain(country.name);
      expect(new Set(country.borders).size).toBe(country.borders.length);
      expect(country.borders).not.toContain(country.name);
    }
    expect(bag(world, ({ borders }) => String(borders.length))).toEqual(
      bag(real, ({ borders }) => String(borders.length)),
    );
    const moved = listed(world).filter(
      ({ name, borders }) => borders.join() !== real.countries.get(name)?.borders.join(),
    );
    expect(moved.length).toBeGreaterThan(100);
  }
});

test("worlds differ from each other, and a world's number alone decides which country has which capital", () => {
  const texts = permuted.map((world) => JSON.stringify(listed(world)));
  expect(new Set(texts).size).toBe(texts.length);
  for (const world of permuted) {
    const order = stream("atlas-world", world.number, "capital").choose(countries.length, countries.length);
    expect(listed(world).map(({ capital }) => capital)).toEqual(order.map((i) => countries[i]?.capital));
  }
});

test("every page has its own title, and its links lead to pages", () => {
  for (const world of [real, ...permuted]) {
    const pages = pagesOf(world);
    expect(pages.size).toBe(2 * countries.length);
    const linked = [...pages.values()].flatMap((text) => [...text.matchAll(/\[([^\]]+)\]/g)].map(([, title]) => title));
    expect(linked.length).toBeGreaterThan(pages.size);
    expect(linked.filter((title) => !pages.has(title ?? ""))).toEqual([]);
  }
});

test("parsing a page returns the facts that it was written from", () => {
  for (const world of [real, ...permuted]) {
    const pages = pagesOf(world);
    for (const country of listed(world)) {
      const page = readPage(pages.get(country.name) ?? "");
      expect(page.title).toBe(country.name);
      expect(page.fields.get("capital")).toBe(country.capital);
      expect(page.fields.get("region")).toBe(country.region);
      expect(page.fields.get("currency")).toBe(country.currency);
      expect(page.fields.get("languages")).toBe(country.languages.join(", "));
      expect(page.fields.get("area")).toBe(country.area === 0 ? "under 1" : String(country.area));
      expect(page.fields.get("borders")).toBe(country.borders.length === 0 ? "none" : country.borders.join(", "));
      expect(readPage(pages.get(country.capital) ?? "").fields.get("capital of")).toBe(country.name);
    }
  }
});
