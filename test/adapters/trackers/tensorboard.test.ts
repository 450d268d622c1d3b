/** @file TensorBoard's event file, read back by its format: checksums, steps, tags and values. */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import crc32c from "crc-32/crc32c.js";
import protobuf from "protobufjs";
import { afterEach, expect, test } from "vitest";
import { openTensorBoard } from "../../../adapters/trackers/tensorboard.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-tensorboard-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const never = new AbortController().signal;

const line = (step: number, value: number) => ({
  step,
  time: 1_700_000_000_000 + step,
  source: "step",
  metrics: { "reward/main/mean": value, "time/step": 2 },
});

/** The part of event.proto and summary.proto that scalars use, written independently of the adapter. */
const Event = protobuf
  .parse(`
  syntax = "proto3";
  message Event { double wall_time = 1; int64 step = 2; oneof what { string file_version = 3; Summary summary = 5; } }
  message Summary { message Value { string tag = 1; oneof value { float simple_value = 2; } } repeated Value value = 1; }
`)
  .root.lookupType("Event");

function unmask(masked: number): number {
  const rotated = (masked - 0xa282ead8) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0;
}

function readEvents() {
  const [name = ""] = readdirSync(folder);
  const bytes = readFileSync(join(folder, name));
  const events = [];
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at));
    const data = bytes.subarray(at + 12, at + 12 + length);
    expect(unmask(bytes.readUInt32LE(at + 8))).toBe(crc32c.buf(bytes.subarray(at, at + 8)) >>> 0);
    expect(unmask(bytes.readUInt32LE(at + 12 + length))).toBe(crc32c.buf(data) >>> 0);
    events.push(Event.toObject(Event.decode(data), { longs: Number }));
    at += 12 + length + 4;
  }
  return events;
}

test("crc32c computes the Castagnoli checksum", () => expect(crc32c.str("123456789") >>> 0).toBe(0xe3069283));

test("every value is at its step, and a resumed run has no duplicate events", async () => {
  for (let session = 0; session < 2; session++) {
    const tracker = openTensorBoard(folder);
    expect(tracker.startsOver).toBe(true);
    await tracker.send([line(1, 0.5)], never);
    await tracker.send([line(2, 0.75)], never);
    const [version, ...events] = readEvents();
    expect(version).toMatchObject({ fileVersion: "brain.Event:2" });
    expect(events).toEqual([
      {
        wallTime: 1_700_000_000.001,
        step: 1,
        summary: {
          value: [
            { tag: "reward/main/mean", simpleValue: 0.5 },
            { tag: "time/step", simpleValue: 2 },
          ],
        },
      },
      {
        wallTime: 1_700_000_000.002,
        step: 2,
        summary: {
          value: [
            { tag: "reward/main/mean", simpleValue: 0.75 },
            { tag: "time/step", simpleValue: 2 },
          ],
        },
      },
    ]);
  }
});

test("a value of 0 is stored", async () => {
  await openTensorBoard(folder).send([line(1, 0)], never);
  expect(readEvents().at(-1)?.["summary"].value[0]).toEqual({ tag: "reward/main/mean", simpleValue: 0 });
});

test("what a failed write left behind is gone after the next send", async () => {
  const tracker = openTensorBoard(folder);
  await tracker.send([line(1, 0.5)], never);
  const [name = ""] = readdirSync(folder);
  appendFileSync(join(folder, name), "part of a record, as on a full disk");
  await tracker.send([line(2, 0.75)], never);
  const [, ...events] = readEvents();
  expect(events.map((event) => event["step"])).toEqual([1, 2]);
});

test("a file that is deleted during the run is written again, from the first line", async () => {
  const tracker = openTensorBoard(folder);
  await tracker.send([line(1, 0.5)], never);
  rmSync(folder, { recursive: true });
  for (const step of [2, 3]) await tracker.send([line(step, 0.75)], never);
  const [, ...events] = readEvents();
  expect(events.map((event) => event["step"])).toEqual([1, 2, 3]);
});
