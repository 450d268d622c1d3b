/** @file The XML documents that the S3 API of the local cloud reads and writes. */
import { XMLBuilder, XMLParser } from "fast-xml-parser";
import { S3Error } from "./errors.ts";

const builder = new XMLBuilder({ suppressEmptyNode: false });
const parser = new XMLParser({
  parseTagValue: false,
  trimValues: false,
  htmlEntities: true,
  isArray: (name) => name === "Object" || name === "Part",
});

export type XmlTree = { readonly [name: string]: XmlTree | readonly XmlTree[] | string | number | boolean | undefined };

/** Control characters, which keys may contain, become character references: a parser would drop or change them. */
export function toXml(root: string, tree: XmlTree): string {
  const body = String(builder.build({ [root]: tree }));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these have to be escaped
  const escaped = body.replace(/[\u0001-\u001f\u007f]/g, (character) => `&#${character.charCodeAt(0)};`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${escaped}`;
}

/** The parser's name for the text between elements, such as line breaks. */
const TEXT = "#text";

function parseXml(text: string): unknown {
  try {
    return parser.parse(text);
  } catch (error) {
    throw new S3Error("MalformedXML", (error as Error).message);
  }
}

/** The keys of a Delete request; `quiet`: the response must not list the deleted keys. Refuses versions and conditions, such as an ETag. */
export function parseDelete(text: string): { keys: string[]; quiet: boolean } {
  const { Delete } = parseXml(text) as {
    Delete?: { Object?: { readonly Key?: unknown; readonly [condition: string]: unknown }[]; Quiet?: unknown };
  };
  if (!Delete?.Object) throw new S3Error("MalformedXML", "no objects to delete");
  const keys = Delete.Object.map(({ Key, ...conditions }) => {
    if (typeof Key !== "string" || Key === "") throw new S3Error("MalformedXML", "each object to delete needs one key");
    const condition = Object.keys(conditions).find((name) => name !== TEXT);
    if (condition === undefined) return Key;
    throw new S3Error("NotImplemented", `${condition} of an object to delete is not supported by the local cloud`);
  });
  return { keys, quiet: Delete.Quiet === "true" };
}

/** A part as CompleteMultipartUpload names it. */
export interface PartReference {
  readonly number: number;
  readonly etag: string;
}

/** The parts of a CompleteMultipartUpload request, in order. */
export function parseParts(text: string): PartReference[] {
  const { CompleteMultipartUpload } = parseXml(text) as {
    CompleteMultipartUpload?: { Part?: { PartNumber?: unknown; ETag?: unknown }[] };
  };
  if (!CompleteMultipartUpload?.Part) throw new S3Error("MalformedXML", "no parts to join");
  return CompleteMultipartUpload.Part.map(({ PartNumber, ETag }) => ({
    number: Number(PartNumber),
    etag: String(ETag).replaceAll('"', ""),
  }));
}
