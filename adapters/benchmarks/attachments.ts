/** @file Question attachments, read when a run starts: the text that the `read_attachment` tool will show, or why it cannot be read. */
import { readFileSync, statSync } from "node:fs";
import { basename, dirname, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Attachment, READ_ATTACHMENT } from "../../core/contracts/attachment.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Reader } from "../tools/documents/reader.ts";
import { type BenchmarkRow, rejectRow } from "./rows.ts";

const MAX_BYTES = 50_000_000;
const MAX_CHARACTERS = 500_000;

/** Media types by extension; every other file is read as plain text. */
const TYPES: Readonly<Record<string, string>> = {
  ".pdf": "application/pdf",
  ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  ".html": "text/html",
  ".htm": "text/html",
};

/** The attachment's path. Throws `benchmark-damaged` unless the attachment is a file in the folder of the benchmark file. */
export function attachmentPath(at: BenchmarkRow, name: string): string {
  if (basename(name) !== name) return rejectRow(at, `file_name '${name}' is not a plain file name`);
  const path = resolve(dirname(at.file), name);
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) return path;
  return rejectRow(at, `its attachment ${path} is missing: put it beside ${basename(at.file)}`);
}

/**
 * Rejects with `benchmark-damaged` if reading it from the disk fails. A file that is too large, or has no text, is `unreadable`.
 * @param reader undefined if no agent of the team has the tool `read_attachment`: the attachment is then unreadable.
 */
export async function readAttachment(path: string, reader: Pick<Reader, "read"> | undefined): Promise<Attachment> {
  const name = basename(path);
  const unreadableFile = (reason: string): Attachment => ({ name, title: "", text: "", unreadable: reason });
  if (!reader) return unreadableFile(`no agent of this team has the tool ${READ_ATTACHMENT}`);
  if (statSync(path).size > MAX_BYTES) return unreadableFile(`it is larger than ${MAX_BYTES} bytes`);
  const type = TYPES[extname(name).toLowerCase()] ?? "text/plain";
  const document = { url: pathToFileURL(path).href, type, bytes: bytesOf(path), maxCharacters: MAX_CHARACTERS };
  const read = await reader.read(document);
  if ("unreadable" in read) return unreadableFile(read.unreadable);
  return { name, title: read.title, text: read.text };
}

function bytesOf(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (cause) {
    const fault = `it cannot be read (${(cause as Error).message})`;
    throw new MgrpoError("benchmark-damaged", `${path}: ${fault}: make it readable`, { cause });
  }
}
