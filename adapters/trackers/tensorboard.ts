/**
 * @file TensorBoard's event file: records of a length, its masked CRC-32C, a protobuf Event, and the event's masked CRC-32C (tensorflow's
 * record_writer and event.proto). A resumed run rewrites the file from the first line, so no line is in it twice. What a failed write left
 * behind is cut off by the next one: TensorBoard reads nothing after a damaged record.
 */
import { existsSync } from "node:fs";
import { appendFile, mkdir, readdir, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import crc32c from "crc-32/crc32c.js";
import protobuf from "protobufjs";
import type { MetricLine } from "../../core/monitoring/metrics.ts";
import type { Tracker } from "../../core/tracker.ts";

const field = (type: string, id: number) => ({ type, id });

/** The part of event.proto and summary.proto that scalars use. */
const Event = protobuf.Root.fromJSON({
  nested: {
    Event: {
      fields: {
        wallTime: field("double", 1),
        step: field("int64", 2),
        fileVersion: field("string", 3),
        summary: field("Summary", 5),
      },
    },
    Summary: { fields: { value: { rule: "repeated", type: "Value", id: 1 } } },
    // A oneof, as in summary.proto: a value of 0 would otherwise be left out.
    Value: {
      fields: { tag: field("string", 1), simpleValue: field("float", 2) },
      oneofs: { value: { oneof: ["simpleValue"] } },
    },
  },
}).lookupType("Event");

const MASK = 0xa282ead8;

/** @param folder one run's log directory. */
export function openTensorBoard(folder: string): Tracker {
  const file = join(folder, "events.out.tfevents.0.mgrpo");
  /** Of complete records. Undefined: the file is not written yet. */
  let completeBytes: number | undefined;
  /** All lines so far, for a file that has to be written again. */
  const written: MetricLine[] = [];
  /** Returns the new file's size in bytes. */
  const open = async (): Promise<number> => {
    await mkdir(folder, { recursive: true });
    const earlier = (await readdir(folder)).filter((name) => name.startsWith("events.out.tfevents"));
    for (const name of earlier) await rm(join(folder, name));
    const version = record({ wallTime: 0, fileVersion: "brain.Event:2" });
    await writeFile(file, version);
    return version.length;
  };
  return {
    name: "tensorboard",
    startsOver: true,
    async send(lines) {
      // The file may have been deleted during the run: it is written again, from the first line.
      if (!existsSync(file)) completeBytes = undefined;
      const missing = completeBytes === undefined ? [...written, ...lines] : lines;
      const begin = completeBytes ?? (await open());
      const events = Buffer.concat(missing.map(eventOf));
      await truncate(file, begin);
      await appendFile(file, events);
      completeBytes = begin + events.length;
      written.push(...lines);
    },
    async finish() {},
  };
}

function eventOf({ step, time, metrics }: MetricLine): Buffer {
  const value = Object.entries(metrics).map(([tag, simpleValue]) => ({ tag, simpleValue }));
  return record({ wallTime: time / 1000, step, summary: { value } });
}

function record(event: object): Buffer {
  const data = Buffer.from(Event.encode(Event.create(event)).finish());
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(data.length));
  return Buffer.concat([length, checksum(length), data, checksum(data)]);
}

/** Masked, as the format requires: a CRC over data that contains CRCs would be weak. */
function checksum(bytes: Buffer): Buffer {
  const crc = crc32c.buf(bytes) >>> 0;
  const rotated = ((crc >>> 15) | (crc << 17)) >>> 0;
  const masked = Buffer.alloc(4);
  masked.writeUInt32LE((rotated + MASK) >>> 0);
  return masked;
}
