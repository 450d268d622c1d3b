/** @file When a watched checkpoint is complete, when its fingerprint changes, and when two evaluations are the same job. */
import { expect, test } from "vitest";
import { WatchedTeam } from "../../../core/contracts/watched-team.ts";
import {
  completeCheckpoints,
  fingerprintOf,
  MARKER,
  watchedJobId,
} from "../../../core/training/watched-checkpoints.ts";
import { sha, teamConfig } from "../../fakes/scripted-team.ts";

const files = (sizes: Record<string, number>, stamp = "") =>
  new Map(Object.entries(sizes).map(([name, bytes]) => [name, { bytes, stamp }]));
const whole = { "config.json": 10, "model.safetensors": 1000, "tokenizer.json": 20 };
const listing = (checkpoints: Record<string, Record<string, number>>) =>
  new Map(Object.entries(checkpoints).map(([name, sizes]) => [name, files(sizes)]));
const nothing = listing({});

test("a checkpoint is complete with all required files, and the marker or no change since the last poll", () => {
  const now = listing({ a: whole });
  expect(completeCheckpoints(nothing, now)).toEqual([]);
  expect(completeCheckpoints(now, now)).toEqual(["a"]);
  expect(completeCheckpoints(listing({ a: { ...whole, "model.safetensors": 999 } }), now)).toEqual([]);
  expect(completeCheckpoints(new Map([["a", files(whole, "earlier")]]), now)).toEqual([]);
  expect(completeCheckpoints(listing({ b: whole }), now)).toEqual([]);
  expect(completeCheckpoints(nothing, listing({ a: { ...whole, _SUCCESS: 0 } }))).toEqual(["a"]);
});

test("the complete checkpoints are sorted by name, whatever their order at the location", () => {
  const now = listing({ "step-3": whole, "step-1": whole, half: { "config.json": 10 }, "step-2": whole });
  expect(completeCheckpoints(now, now)).toEqual(["step-1", "step-2", "step-3"]);
});

test("an adapter is complete with its config and its weights", () => {
  const adapter = { "adapter_config.json": 5, "adapter_model.safetensors": 100, [MARKER]: 0 };
  expect(completeCheckpoints(nothing, listing({ a: adapter }))).toEqual(["a"]);
  for (const file of ["adapter_config.json", "adapter_model.safetensors"])
    expect(completeCheckpoints(nothing, listing({ a: { ...adapter, [file]: 0 } }))).toEqual([]);
});

test("a sharded model is complete only with its index and as many shards as their names state", () => {
  const shard = (i: number) => ({ [`model-0000${i}-of-00003.safetensors`]: 500 });
  const { "model.safetensors": _one, ...rest } = whole;
  const all = { ...rest, "model.safetensors.index.json": 30, ...shard(1), ...shard(2), ...shard(3), [MARKER]: 0 };
  expect(completeCheckpoints(nothing, listing({ a: all }))).toEqual(["a"]);
  for (const file of Object.keys(all).filter((name) => name !== MARKER)) {
    const { [file]: _left, ...part } = all as Record<string, number>;
    for (const checkpoint of [part, { ...part, [file]: 0 }]) {
      expect(completeCheckpoints(nothing, listing({ a: checkpoint }))).toEqual([]);
    }
  }
});

test("a set that lacks shards makes the checkpoint incomplete, however many shards its names state", () => {
  for (const shards of [
    ["model-1-of-99999999999"],
    ["model-4-of-3"],
    ["model-0-of-3", "model-1-of-3", "model-2-of-3"],
    ["model-1-of-3", "model-2-of-3", "model-4-of-3"],
    // Two sets, of which each lacks a shard.
    ["text-model-1-of-2", "vision-model-2-of-2"],
  ]) {
    const part = Object.fromEntries(shards.map((shard) => [`${shard}.safetensors`, 5]));
    const now = listing({ a: { ...whole, ...part, [MARKER]: 0 }, b: { ...whole, [MARKER]: 0 } });
    expect(completeCheckpoints(nothing, now)).toEqual(["b"]);
  }
});

test("a file whose name only begins like a shard's is not a shard", () => {
  const now = listing({ a: { ...whole, "model-1-of-3.safetensors.lock": 0, [MARKER]: 0 } });
  expect(completeCheckpoints(nothing, now)).toEqual(["a"]);
});

test("a missing or empty required file makes the checkpoint incomplete, even with the marker", () => {
  for (const file of Object.keys(whole)) {
    const { [file as keyof typeof whole]: _left, ...rest } = whole;
    for (const checkpoint of [rest, { ...rest, [file]: 0 }]) {
      const now = listing({ a: { ...checkpoint, [MARKER]: 0 } });
      expect(completeCheckpoints(now, now)).toEqual([]);
    }
  }
});

test("the fingerprint depends on the sizes and stamps of the files, but not on their order or on the marker", () => {
  expect(fingerprintOf(files({ ...whole, [MARKER]: 0 }))).toBe(fingerprintOf(new Map([...files(whole)].reverse())));
  expect(fingerprintOf(files({ ...whole, "config.json": 11 }))).not.toBe(fingerprintOf(files(whole)));
  expect(fingerprintOf(files(whole, "later"))).not.toBe(fingerprintOf(files(whole)));
});

test("a job's id depends only on the team's files, the suite, its questions and the settings of the team", () => {
  const team = WatchedTeam.parse({ recipe: "atlas", agent: "main" });
  const suite = teamConfig().evaluation.suites[0] ?? expect.fail();
  const question = { id: "q", kind: "k", level: 1, prompt: "What?", answer: "a", facts: {} };
  const asked = { suite, questions: [question] };
  const hashes = { main: { "model.safetensors": "a" }, searcher: { "model.safetensors": "b" } };
  const job = watchedJobId(team, hashes, asked, sha);
  expect(job).toMatch(/^all-[0-9a-f]{16}$/);
  const swapped = { searcher: hashes.searcher, main: hashes.main };
  expect(watchedJobId({ ...team, models: { searcher: "elsewhere" } }, swapped, asked, sha)).toBe(job);
  const others = [
    watchedJobId(team, { ...hashes, searcher: { "model.safetensors": "c" } }, asked, sha),
    watchedJobId(team, hashes, { ...asked, suite: { ...suite, runs: 3 } }, sha),
    watchedJobId({ ...team, recipe: "tally" }, hashes, asked, sha),
    watchedJobId({ ...team, arm: "single-agent" }, hashes, asked, sha),
    watchedJobId({ ...team, seed: 2 }, hashes, asked, sha),
    watchedJobId({ ...team, set: ["agents.main.limits.turns=3"] }, hashes, asked, sha),
    watchedJobId(team, hashes, { suite, questions: [{ ...question, prompt: "What else?" }] }, sha),
    watchedJobId(team, hashes, { suite, questions: { questions: [question], criteria: "Be strict." } }, sha),
  ];
  expect(new Set([job, ...others]).size).toBe(9);
});
