/**
 * @file The journal of events that are still to be handled: one line when an object is about to be there, one when its event was
 * handled. What has only the first line after a crash is delivered again. Lines go out in one write each; a torn last line belongs to
 * a request that was never answered. Written synchronously: a line costs less than handing it to a thread.
 *
 *     + <id> {"bucket","key"}    before the object gets its name
 *     - <id>                     handled, or the object was not made
 */
import { closeSync, ftruncateSync, openSync, renameSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { writeAll } from "./s3/receive.ts";

const ObjectAddress = z.strictObject({ bucket: z.string(), key: z.string() });
export type Announced = z.infer<typeof ObjectAddress>;

/** An object that is there and whose event is to be handled. */
export interface PendingEvent extends Announced {
  readonly id: number;
}

export interface Journal {
  /** Writes the line; then call what it gave with whether the object was made. */
  announce(object: Announced): (created: boolean) => void;
  handled(id: number): void;
  /** What an earlier process announced and did not handle; the objects may not be there. */
  readonly unhandled: readonly PendingEvent[];
  close(): void;
}

/** An idle journal of this size is emptied. */
const WORTH_EMPTYING = 2 ** 20;

export async function openJournal(path: string, created: (pending: PendingEvent) => void): Promise<Journal> {
  const left = pendingOf(await readFile(path, "utf8").catch(emptyIfMissing));
  writeFileSync(`${path}.new`, left.map(announcement).join(""));
  renameSync(`${path}.new`, path);
  const file = openSync(path, "a");
  const waiting = new Set(left.map(({ id }) => id));
  let [nextId, size] = [left.reduce((highest, { id }) => Math.max(highest, id), 0) + 1, 0];
  const append = (line: string) => {
    size += line.length;
    writeAll(file, Buffer.from(line));
  };

  function handled(id: number): void {
    waiting.delete(id);
    append(`- ${id}\n`);
    if (size < WORTH_EMPTYING || waiting.size > 0) return;
    size = 0;
    ftruncateSync(file);
  }

  return {
    unhandled: left,
    announce(object) {
      const pending = { ...object, id: nextId++ };
      waiting.add(pending.id);
      append(announcement(pending));
      return (made) => {
        if (made) return created(pending);
        try {
          handled(pending.id);
        } catch {
          // A line too many only costs a look after the next start.
        }
      };
    },
    handled,
    close: () => closeSync(file),
  };
}

const announcement = ({ id, bucket, key }: PendingEvent) => `+ ${id} ${JSON.stringify({ bucket, key })}\n`;

function pendingOf(text: string): PendingEvent[] {
  const pending = new Map<number, PendingEvent>();
  for (const line of text.split("\n").slice(0, -1)) {
    const match = /^([+-]) (\d+)(?: (.*))?$/s.exec(line);
    const id = Number(match?.[2]);
    if (match?.[1] === "-") pending.delete(id);
    const announced = match?.[1] === "+" ? announcedIn(match[3] ?? "") : undefined;
    if (announced) pending.set(id, { id, ...announced });
  }
  return [...pending.values()];
}

/** Undefined for a line that a full disk cut short: the clock finds what that event meant. */
function announcedIn(text: string): Announced | undefined {
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
