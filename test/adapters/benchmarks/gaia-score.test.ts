/** @file GAIA's official scorer, rule by rule. Its scorer.py gives the same results under Python 3. */
import { describe, expect, test } from "vitest";
import { isGaiaMatch } from "../../../adapters/benchmarks/gaia-score.ts";

type Case = readonly [answer: string | null, reference: string, correct: boolean];

/** Rule of scorer.py -> cases. */
const RULES: Record<string, readonly Case[]> = {
  "is_float(reference): the answer must be an equal float": [
    ["17", "17", true],
    ["17.0", "17", true],
    ["17", "17.000", true],
    ["0.1", ".1", true],
    ["5.", "5", true],
    ["+3", "3", true],
    ["-3", "3", false],
    ["1.7e1", "17", true],
    ["1E3", "1000", true],
    ["17.01", "17", false],
    ["0.30000000000000004", "0.3", false],
    ["90", "0.90", false],
  ],
  "normalize_number_str: $, % and , are removed, wherever they stand": [
    ["$1,234.50", "1234.5", true],
    ["1,000,000", "1000000", true],
    ["1,0,0", "100", true],
    ["34%", "34", true],
    ["%3$4,", "34", true],
    ["€34", "34", false],
    ["34 USD", "34", false],
  ],
  "normalize_number_str: what is not a number is read as infinity, which equals no finite reference": [
    ["seventeen", "17", false],
    ["about 17", "17", false],
    ["17 km", "17", false],
    ["1 000", "1000", false],
    ["- 5", "-5", false],
    ["0x11", "17", false],
    ["", "0", false],
    [null, "0", false],
  ],
  "Python's float() accepts surrounding whitespace, underscores, any script's digits, inf and nan": [
    ["  17\n", "17", true],
    ["\u001c17", "17", false],
    ["\u3000１７", "17", true],
    ["\ufeff17", "17", false],
    ["1_000", "1000", true],
    ["1__000", "1000", false],
    ["1000_", "1000", false],
    ["１７", "17", true],
    ["٣", "3", true],
    ["𝟏𝟕", "17", true],
    ["whatever", "inf", true],
    ["-Infinity", "-inf", true],
    ["5", "Infinity", false],
    ["nan", "nan", false],
  ],
  "a reference with a thousands separator is not a float: it is a list": [
    ["1,000", "1,000", true],
    ["1000", "1,000", false],
    ["1;0", "1,000", true],
  ],
  "split_string: on , and ; alike": [
    ["a, b, c", "a, b, c", true],
    ["a; b; c", "a, b, c", true],
    ["a,b;c", "a;b,c", true],
    ["a b c", "a, b, c", false],
  ],
  "lists of different lengths are different": [
    ["a, b", "a, b, c", false],
    ["a, b, c, d", "a, b, c", false],
    ["a, b, ", "a, b", false],
    ["", "a, b", false],
    [null, "a, b", false],
  ],
  "elements of a list are compared in order": [
    ["b, a", "a, b", false],
    ["2, 1", "1, 2", false],
  ],
  "is_float(element): compared as a number": [
    ["1.0, 2", "1, 2.00", true],
    ["$1; 50%", "1, 50", true],
    ["one, 2", "1, 2", false],
    ["3, Paris", "3, Paris", true],
    ["3, Paris", "3.5, Paris", false],
  ],
  "normalize_str(element, remove_punct=False): no whitespace, lower case, punctuation counts": [
    ["Sea Gull, Cod", "seagull, cod", true],
    ["St. Ives, Bath", "St Ives, Bath", false],
    ["O'Neil, Ray", "o'neil, ray", true],
    ["O'Neil, Ray", "ONeil, Ray", false],
    ["a., b", "a, b", false],
  ],
  "normalize_str(text): no whitespace": [
    ["sea gull", "seagull", true],
    ["sea\u00a0gull\t", "seagull", true],
    ["sea\u001cgull", "seagull", true],
    ["sea\u200bgull", "seagull", false],
  ],
  "normalize_str(text): lower case": [
    ["PARIS", "Paris", true],
    ["ÉCOLE", "école", true],
    ["STRASSE", "straße", false],
  ],
  "normalize_str(text): string.punctuation is removed, which is ASCII only": [
    ["St. Petersburg!", "St Petersburg", true],
    ["(well-known)", "wellknown", true],
    ["!\"#$%&'()*+-./:<=>?@[\\]^_`{|}~x", "x", true],
    ["“x”", "x", false],
    ["x – y", "x - y", false],
  ],
  "a text that contains a number is compared as text": [
    ["17 km", "17 km", true],
    ["17km.", "17 km", true],
    ["17.0 km", "17 km", false],
    ["170 km", "17.0 km", true],
  ],
  "a comma in the answer does not make a list": [
    ["Paris, France", "Paris", false],
    ["Par,is", "Paris", true],
  ],
  "a missing answer is the text None; an empty one is not": [
    [null, "none", true],
    [null, "Paris", false],
    ["", "?!", true],
  ],
};

describe.each(Object.entries(RULES))("%s", (_rule, cases) => {
  test.each(cases)("%j for the reference %j is correct: %s", (answer, reference, correct) => {
    expect(isGaiaMatch(answer, reference)).toBe(correct);
  });
});
