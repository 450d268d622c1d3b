/**
 * @file The event journal: one line before an object appears, one after its event is handled. After a crash, an event with only its first
 * line is delivered again if its object exists. Each line is one write. A torn last line is ignored: its request was never acknowledged, or
 * its event is delivered again. Writes are synchronous, because writing a line costs less than handing it to another thread.
 *
 *     + <id> {"bucket","key"}    before the object gets its name
 *     - <id>                     handled, or the object was not created
 */
import { closeSync, ftruncateSync, openSync, renameSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { writeAll } from "./s3/receive.ts";

const ObjectAddress = z.strictObject({ bucket: z.string(), key: z.string() });
export type ObjectAddress = z.infer<typeof ObjectAddress>;

/** An event that is not handled yet. */
export interface PendingEvent extends ObjectAddress {
  readonly id: number;
}

export interface Journal {
  /** Writes the first line. Call the returned function with whether the object was created. */
  announce(object: ObjectAddress): (created: boolean) => void;
  handled(id: number): void;
  /** Events that an earlier process announced and did not handle. Their objects may not exist. */
  readonly unhandled: readonly PendingEvent[];
  close(): void;
}

/** A journal is compacted to its pending events once the lines added since the last compaction reach this many bytes plus what it kept. */
const COMPACTION_BYTES = 2 ** 20;

/** `onCreated` is called with the event of each announced object once the object exists. */
export async function openJournal(path: string, onCreated: (event: PendingEvent) => void): Promise<Journal> {
  const unhandled = parseJournal(await readFile(path, "utf8").catch(emptyIfMissing));
  const file = new JournalFile(path, unhandled);
  return {
    unhandled,
    announce(object) {
      const event = file.announce(object);
      return (created) => {
        if (created) return onCreated(event);
        try {
          file.handled(event.id);
        } catch {
          // Without this line, the next start looks for the object, and delivers the event if an object of this name exists.
        }
      };
    },
    handled: (id) => file.handled(id),
    close: () => file.close(),
  };
}

class JournalFile {
  readonly #path: string;
  readonly #pending: Map<number, PendingEvent>;
  #file: number;
  #nextId: number;
  /** Size of the file after the last compaction. */
  #keptBytes = 0;
  /** Size of the lines added since then, or since a compaction that failed. */
  #addedBytes = 0;

  constructor(path: string, unhandled: readonly PendingEvent[]) {
    this.#path = path;
    this.#pending = new Map(unhandled.map((event) => [event.id, event]));
    this.#file = this.#replace();
    this.#nextId = unhandled.reduce((highest, { id }) => Math.max(highest, id), 0) + 1;
  }

  announce(object: ObjectAddress): PendingEvent {
    const event = { ...object, id: this.#nextId++ };
    this.#append(announcement(event));
    this.#pending.set(event.id, event);
    return event;
  }

  handled(id: number): void {
    this.#pending.delete(id);
    this.#append(`- ${id}\n`);
    if (this.#addedBytes >= COMPACTION_BYTES + this.#keptBytes) this.#compact();
  }

  close(): void {
    closeSync(this.#file);
  }

  #append(line: string): void {
    const bytes = Buffer.from(line);
    this.#addedBytes += bytes.length;
    writeAll(this.#file, bytes);
  }

  #compact(): void {
    if (this.#pending.size === 0) {
      // Needs no space, unlike a new file.
      ftruncateSync(this.#file);
      [this.#keptBytes, this.#addedBytes] = [0, 0];
      return;
    }
    const old = this.#file;
    try {
      this.#file = this.#replace();
    } catch {
      // The journal is still correct without compaction. The next attempt comes after as many bytes again.
      this.#addedBytes = 0;
      return;
    }
    closeSync(old);
  }

  /** Atomically replaces the file with one that holds only the pending events. Returns the new descriptor. */
  #replace(): number {
    const bytes = Buffer.from([...this.#pending.values()].map(announcement).join(""));
    writeFileSync(`${this.#path}.new`, bytes);
    const file = openSync(`${this.#path}.new`, "a");
    try {
      renameSync(`${this.#path}.new`, this.#path);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    [this.#keptBytes, this.#addedBytes] = [bytes.length, 0];
    return file;
  }
}

const announcement = ({ id, bucket, key }: PendingEvent) => `+ ${id} ${JSON.stringify({ bucket, key })}\n`;

function parseJournal(text: string): PendingEvent[] {
  const pending = new Map<number, PendingEvent>();
  for (const line of text.split("\n").slice(0, -1)) {
    const [, sign, digits, json = ""] = /^([+-]) (\d+)(?: (.*))?$/s.exec(line) ?? [];
    const id = Number(digits);
    if (sign === "-") pending.delete(id);
    const object = sign === "+" ? parseAddress(json) : undefined;
    if (object) pending.set(id, { id, ...object });
  }
  return [...pending.values()];
}

/** Undefined for a line that a full disk cut short and the next write continued. The scheduled tick makes up for the lost event. */
function parseAddress(text: string): ObjectAddress | undefined {
  try {
    return parseJson(ObjectAddress, text, "journal of events");
  } catch {
    return undefined;
  }
}

function emptyIfMissing(error: NodeJS.ErrnoException): string {
  if (error.code === "ENOENT") return "";
  throw error;
}
