/**
 * @file Watching a location for checkpoints: each is evaluated once, and a damaged one does not end the watch; and the command itself.
 */
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { lineOf, watchCheckpoints } from "../../cli/watch.ts";
import type { CheckpointSource, FileState } from "../../core/checkpoint-source.ts";
import { WatchedEvaluation } from "../../core/contracts/watched-team.ts";
import { MgrpoError } from "../../core/errors.ts";
import { MARKER } from "../../core/training/watched-checkpoints.ts";
import { baseFiles } from "../fixtures/relay/policy.ts";
import { projectOfFile, RELAY, startMgrpo } from "./command-line.ts";

const TIMEOUT = 480_000;
const folder = projectOfFile();

const checkpoint = (bytes: number, marked = true, stamp = "") =>
  new Map<string, FileState>([
    ...["config.json", "model.safetensors", "tokenizer.json"].map((name) => [name, { bytes, stamp }] as const),
    ...(marked ? [[MARKER, { bytes: 0, stamp }] as const] : []),
  ]);

/** Watches a source that returns these listings, one per poll. `evaluated`: `<poll>:<checkpoint>`. */
async function watched(
  listings: (Record<string, Map<string, FileState>> | MgrpoError)[],
  onEvaluate?: (name: string) => void,
) {
  const stop = new AbortController();
  const evaluated: string[] = [];
  const reports: string[] = [];
  let poll = -1;
  const source: CheckpointSource = {
    async list() {
      const listing = listings[++poll];
      if (!listing) {
        stop.abort();
        return new Map();
      }
      if (listing instanceof MgrpoError) throw listing;
      return new Map(Object.entries(listing));
    },
    read: async () => new Map(),
  };
  const evaluate = async (name: string) => {
    evaluated.push(`${poll}:${name}`);
    onEvaluate?.(name);
  };
  await watchCheckpoints(source, 0, stop.signal, evaluate, (line) => reports.push(`${line.kind}: ${line.message}`));
  return { evaluated, reports };
}

test("a checkpoint is evaluated once when it is complete, and again when its files change", async () => {
  const a = checkpoint(5, false);
  const listings = [{ a }, { a, b: checkpoint(7) }, { a, b: checkpoint(7) }, { a, b: checkpoint(8) }, { a }];
  expect((await watched(listings)).evaluated).toEqual(["1:a", "1:b", "3:b"]);
});

test("a folder rewritten with files of the same size, or removed and restored, is evaluated again", async () => {
  const written = (stamp: string) => ({ latest: checkpoint(5, true, stamp) });
  const listings = [written("1"), written("1"), written("2"), {}, written("2")];
  expect((await watched(listings)).evaluated).toEqual(["0:latest", "2:latest", "4:latest"]);
});

test("a damaged checkpoint is reported once and the others are evaluated; an outage is waited out; a missing bucket or a bug ends the watch", async () => {
  const listings = [
    { a: checkpoint(1), b: checkpoint(2) },
    { a: checkpoint(1), b: checkpoint(2) },
  ];
  const damaged = await watched(listings, (name) => {
    if (name === "a") throw new MgrpoError("checkpoint-damaged", "a is damaged");
  });
  expect(damaged).toEqual({ evaluated: ["0:a", "0:b"], reports: ["refused: a is damaged"] });
  const outage = new MgrpoError("store-unreachable", "no answer", { retryable: true });
  const outages = await watched([outage, outage, { a: checkpoint(1) }]);
  expect(outages).toEqual({ evaluated: ["2:a"], reports: ["retry: no answer"] });
  await expect(watched([new MgrpoError("not-found", "no such bucket")])).rejects.toThrow("no such bucket");
  const fault = watched([{ a: checkpoint(1) }], () => {
    throw new TypeError("a fault");
  });
  await expect(fault).rejects.toThrow("a fault");
});

test("a checkpoint whose answers are lost does not delay the others, and is retried up to ten times, at doubling intervals", async () => {
  const both = { a: checkpoint(1), b: checkpoint(2) };
  const lose = (times: number) => {
    let losses = times;
    return (name: string) => {
      if (name === "a" && losses-- > 0) throw new MgrpoError("endpoint-unavailable", "answers", { retryable: true });
    };
  };
  const recovered = await watched(Array(8).fill(both), lose(2));
  expect(recovered).toEqual({ evaluated: ["0:a", "0:b", "1:a", "3:a"], reports: ["retry: answers"] });
  const never = await watched([...Array(1100).fill(both), { a: checkpoint(3) }], lose(11));
  const polls = [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023];
  expect(never.evaluated.filter((one) => one.endsWith(":a"))).toEqual([...polls, 1100].map((poll) => `${poll}:a`));
  expect(never.reports).toEqual([
    "retry: answers",
    expect.stringMatching(/^refused: answers; given up after 10 retries/),
  ]);
});

test("with months between polls, the location is polled only once", async () => {
  const stop = new AbortController();
  let polls = 0;
  const source: CheckpointSource = {
    async list() {
      polls += 1;
      return new Map();
    },
    read: async () => new Map(),
  };
  setTimeout(() => stop.abort(), 100);
  await watchCheckpoints(
    source,
    1e7,
    stop.signal,
    async () => {},
    () => {},
  );
  expect(polls).toBe(1);
});

test("on a terminal, a checkpoint's long name does not run into the suite", () => {
  const checkpoint = "a".repeat(24);
  const score = { n: 4, correct: 1, runs: [], interval: { low: 0, high: 1 } };
  const found = { kind: "evaluation", checkpoint, agent: "main", job: "greedy-1", suite: "greedy", ...score } as const;
  expect(lineOf(found, true)).toContain(`${checkpoint}  greedy`);
});

test("the command prints a line and writes a file per suite, and evaluates nothing twice, even after a restart", {
  timeout: TIMEOUT,
}, async () => {
  const team = {
    ...{ recipe: RELAY, agent: "main", models: { searcher: "models/searcher" } },
    set: [`evaluation.suites=${JSON.stringify([{ name: "sampled", runs: 2 }])}`],
  };
  writeFileSync(join(folder, "team.json"), JSON.stringify(team));
  const put = (name: string, config: string) => {
    mkdirSync(join(folder, "inbox", name), { recursive: true });
    const text = (content: string) => new TextEncoder().encode(content);
    const files = new Map([...baseFiles("main"), ["config.json", text(config)], [MARKER, text("")]]);
    for (const [file, bytes] of files) writeFileSync(join(folder, "inbox", name, file), bytes);
  };
  /** Runs the command until it has printed `count` lines. */
  const evaluations = async (count: number): Promise<WatchedEvaluation[]> => {
    const flags = ["--watch", "inbox", "--team", "team.json", "--every", "0.2"];
    const child = startMgrpo(folder, "eval", ...flags);
    const ended = once(child, "exit");
    const lines: WatchedEvaluation[] = [];
    if (!child.stdout) throw new Error("no output");
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(WatchedEvaluation.parse(JSON.parse(line)));
      if (lines.length === count) break;
    }
    child.kill("SIGTERM");
    await ended;
    return lines;
  };

  put("first", "{}");
  const [first] = await evaluations(1);
  expect(first).toMatchObject({
    checkpoint: "first",
    agent: "main",
    suite: "sampled",
    n: 12,
    runs: [{ n: 6 }, { n: 6 }],
  });
  const kept = () => readdirSync(join(folder, "evaluations"));
  expect(kept()).toEqual([`${first?.job}.json`]);
  expect(JSON.parse(readFileSync(join(folder, "evaluations", `${first?.job}.json`), "utf8"))).toEqual(first);

  // The copy has the same files under another name: the same job. Only the checkpoint that differs is evaluated.
  put("copy", "{}");
  put("second", '{"changed":true}');
  const [second] = await evaluations(1);
  expect(second).toMatchObject({ checkpoint: "second", n: 12 });
  expect(kept()).toHaveLength(2);
});
