/**
 * @file The verdict of a soak test on made-up series: growth above the tolerance is found, noise and warm-up are not. Also its CSV, its chart,
 * the timing of `mgrpo show`, and its options.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { drawSeries } from "../../bench/soak/chart.ts";
import { type SoakSample, timeShow } from "../../bench/soak/sample.ts";
import { resultsOf, seriesOf, toCsv } from "../../bench/soak/series.ts";
import { type Point, trendOf } from "../../bench/soak/trend.ts";
import { stream } from "../../core/random.ts";

/** One point a minute for an hour. */
const hour = (value: (minute: number) => number): Point[] =>
  Array.from({ length: 60 }, (_, i) => [i + 1, value(i + 1)] as const);

/** Uniform in [-1, 1). */
function noise(seed: number): () => number {
  const random = stream(seed, "soak");
  return () => 2 * random.uniform() - 1;
}

test("the growth of a line is its rise over the second half, as a share of the median there", () => {
  // The second half is from minute 30.5: 30 points from 31 to 60, a rise of 29, around 45.5.
  const { growth, verdict } = trendOf(hour((minute) => minute));
  expect(growth).toBeCloseTo(29 / 45.5, 10);
  expect(verdict).toBe("grows");
});

const flat: [string, readonly Point[]][] = [
  ["a constant", hour(() => 7)],
  ["zero throughout", hour(() => 0)],
  ["growth in the first half", hour((minute) => 100 + 10 * Math.min(minute, 30))],
  // 29 minutes of 0.1 around 104.55: 2.8%.
  ["growth within the tolerance", hour((minute) => 100 + 0.1 * minute)],
  ["a decline", hour((minute) => 200 - minute)],
  ["a sawtooth, like that of a garbage-collected heap", hour((minute) => 100 + 10 * (minute % 7))],
  ["a series with two outliers at the end", hour((minute) => (minute > 58 ? 500 : 100))],
];
test.each(flat)("%s is flat", (_what, points) => {
  expect(trendOf(points).verdict).toBe("flat");
});

const growing: [string, readonly Point[]][] = [
  // 29 minutes of 0.25 around 111.4: 6.5%.
  ["a leak", hour((minute) => 100 + 0.25 * minute)],
  ["a rise from zero", hour((minute) => Math.max(0, minute - 45))],
  ["a sawtooth that climbs", hour((minute) => 100 + 10 * (minute % 7) + minute)],
  ["a leak among outliers", hour((minute) => (minute % 9 === 0 ? 500 : 100 + 0.5 * minute))],
];
test.each(growing)("%s grows", (_what, points) => {
  expect(trendOf(points).verdict).toBe("grows");
});

test("noise of 20% is nearly always flat, and a leak of 10% with noise of 5% is nearly always found", () => {
  const verdicts = (share: number, slope: number) =>
    Array.from({ length: 200 }, (_, seed) => {
      const next = noise(seed);
      return trendOf(hour((minute) => 100 * (1 + share * next()) + slope * minute)).verdict;
    });
  const count = (all: readonly string[]) => all.filter((verdict) => verdict === "grows").length;
  // The Mann-Kendall test alone would find a rise in 5% of them.
  expect(count(verdicts(0.2, 0))).toBeLessThan(20);
  // 29 minutes of 0.4 around 118: 9.8%.
  expect(count(verdicts(0.05, 0.4))).toBeGreaterThan(190);
});

test("fewer than eight points in the second half give no verdict", () => {
  expect(trendOf([])).toEqual({ growth: Number.NaN, verdict: "too short" });
  expect(trendOf(hour((minute) => minute).slice(0, 15)).verdict).toBe("grows");
  expect(trendOf(hour((minute) => minute).slice(0, 14)).verdict).toBe("too short");
});

/** One sample a minute for an hour, with twenty steps a minute and the `changes` of each minute. */
const soak = (changes: (minute: number) => Partial<SoakSample> = () => ({})): SoakSample[] =>
  Array.from({ length: 60 }, (_, i) => ({
    minutes: i + 1,
    steps: 20 * (i + 1),
    stepSeconds: 3,
    showSeconds: 0.5,
    showStepSeconds: 0.4,
    files: 100 + 20 * 30 * (i + 1),
    records: { STEP: 20 * (i + 1), WORKER: 2, AGENT: 2 },
    bytes: { command: 2e8, main: 5e8, searcher: 5e8 },
    openFiles: { command: 60, main: 30, searcher: 30 },
    ...changes(i + 1),
  }));

const grownIn = (samples: readonly SoakSample[]) =>
  resultsOf(samples).flatMap(({ name, of, verdict }) => (verdict === "flat" ? [] : [`${name} ${of} ${verdict}`]));

test("a steady soak is flat in every quantity", () => {
  expect(grownIn(soak())).toEqual([]);
  expect(resultsOf(soak()).find(({ of }) => of === "files per step")).toEqual({
    name: "soak.files",
    of: "files per step",
    first: 30,
    last: 30,
    unit: "files per step",
    growth: 0,
    verdict: "flat",
  });
});

test.each<[string, (minute: number) => Partial<SoakSample>]>([
  ["soak.memory searcher grows", (n) => ({ bytes: { command: 2e8, main: 5e8, searcher: 5e8 + 2e6 * n } })],
  ["soak.open-files command grows", (n) => ({ openFiles: { command: 60 + n, main: 30, searcher: 30 } })],
  ["soak.files files per step grows", (n) => ({ files: 600 * n + n * n })],
  ["soak.records WORKER grows", (n) => ({ records: { STEP: 20 * n, WORKER: 2 + n, AGENT: 2 } })],
  ["soak.records STEP grows", (n) => ({ records: { STEP: 20 * n + n * n, WORKER: 2, AGENT: 2 } })],
  ["soak.latencies step (median) grows", (n) => ({ stepSeconds: 3 + n / 50 })],
  ["soak.latencies mgrpo show grows", (n) => ({ showSeconds: 0.5 + n / 100 })],
  ["soak.latencies mgrpo show of a step grows", (n) => ({ showStepSeconds: 0.4 + n / 100 })],
])("%s, and nothing else", (found, changes) => {
  expect(grownIn(soak(changes))).toEqual([found]);
});

test("a sample with no step since the one before has no value per step, and the CSV leaves it empty", () => {
  const [first = expect.fail(), second = expect.fail()] = soak();
  const samples = [
    { ...first, showStepSeconds: undefined },
    { ...second, steps: first.steps, stepSeconds: undefined },
  ];
  const { records, files, latencies } = seriesOf(samples);
  expect(files?.lines.map(({ points }) => points)).toEqual([[]]);
  expect(records?.lines.map(({ name, points }) => [name, points.length])).toEqual([
    ["AGENT", 2],
    ["STEP", 0],
    ["WORKER", 2],
  ]);
  expect(latencies?.lines.map(({ points }) => points.length)).toEqual([1, 2, 1]);
  const [head = "", , last = ""] = toCsv(samples).split("\n");
  const columns = head.split(",");
  expect(last.split(",")).toHaveLength(columns.length);
  expect(last.split(",")[columns.indexOf("records: STEP")]).toBe("");
});

test("mgrpo show is timed for the whole run and for one step, and its failure is an error", async () => {
  const folder = mkdtempSync(join(tmpdir(), "soak-show-"));
  try {
    const mgrpo = join(folder, "mgrpo.cjs");
    const script = `require("fs").appendFileSync("calls", process.argv.slice(2).join(" ") + "\\n");`;
    writeFileSync(mgrpo, `${script} if (process.argv[4] === "7") process.exit(1); setTimeout(() => {}, 100);`);
    const soaked = { project: folder, run: "soak", mgrpo };
    expect(await timeShow(soaked)).toBeGreaterThan(0.09);
    expect(await timeShow(soaked, 0)).toBeGreaterThan(0.09);
    await expect(timeShow(soaked, 7)).rejects.toThrow("show soak 7");
    expect(readFileSync(join(folder, "calls"), "utf8")).toBe("show soak\nshow soak 0\nshow soak 7\n");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a chart names its quantity, its unit and its lines", () => {
  const { memory = expect.fail() } = seriesOf(soak());
  const picture = drawSeries(memory);
  expect(picture).toMatch(/^<svg /);
  for (const text of ["Memory of each process", "MB", "command", "searcher", "minutes"])
    expect(picture).toContain(text);
});

test("an unknown option is refused in one line that names the options", async () => {
  const soaked = promisify(execFile)(process.execPath, ["dist/bench/soak/main.js", "--hours=1"]);
  await expect(soaked).rejects.toMatchObject({
    code: 1,
    stderr: "soak: Unknown option '--hours' (the options are --minutes, --to and --collect)\n",
  });
});
