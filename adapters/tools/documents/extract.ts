/**
 * @file The text of a document: HTML as Markdown, PDF by page, Excel workbooks by sheet; plain text is only trimmed. Runs in its own process
 * (reader-child.ts), because a document can take any amount of time and memory. The result is cut to its limits here. The libraries for HTML,
 * PDF and Excel are loaded when a document first needs them.
 */
import sniff from "html-encoding-sniffer";
import { clip } from "../../../core/well-formed.ts";
import { type Document, type Extracted, MAX_REASON, MAX_TITLE } from "./document.ts";

const PDF = "application/pdf";
const XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const HTML = /^(text\/html|application\/xhtml\+xml)$/;
const TEXT = /^(text\/.+|application\/(.+\+)?(json|xml|yaml|x-ndjson|javascript))$/;

export async function extract(document: Document): Promise<Extracted> {
  const extracted = await extractWhole(document);
  if ("unreadable" in extracted) return { unreadable: clip(extracted.unreadable, MAX_REASON) };
  return { title: clip(extracted.title, MAX_TITLE), text: clip(extracted.text, document.maxCharacters) };
}

async function extractWhole(document: Document): Promise<Extracted> {
  // A header that is sent twice arrives as one, with a comma: `text/html, text/html; charset=utf-8`.
  const [name = "", ...parameters] = document.type.toLowerCase().split(/[;,]/);
  const charset = /charset="?([^";]+)/.exec(parameters.join(";"))?.[1]?.trim();
  const type = name.trim() || sniffType(document.bytes);
  if (type === PDF) return (await import("./pdf.ts")).extractPdf(document);
  if (type === XLSX) return (await import("./spreadsheet.ts")).extractSpreadsheet(document);
  const isHtml = HTML.test(type);
  if (!isHtml && !TEXT.test(type)) return { unreadable: `it is ${type}, which is not supported` };
  const text = decode(document.bytes, charset, type);
  if (text === undefined) return { unreadable: "its character encoding is not supported" };
  if (text.includes("\0")) return { unreadable: "it is binary data" };
  if (isHtml) return (await import("./html.ts")).extractHtml(text, document);
  return { title: "", text: text.trim() };
}

function sniffType(bytes: Uint8Array): string {
  const start = Buffer.from(bytes.subarray(0, 512)).toString("latin1").trimStart();
  if (start.startsWith("%PDF-")) return PDF;
  return /^<(!doctype html|html|head|body)/i.test(start) ? "text/html" : "text/plain";
}

/** Undefined for encodings that browsers refuse too, such as ISO-2022-KR, and for the one that Node.js lacks, ISO-8859-16. */
function decode(bytes: Uint8Array, charset: string | undefined, type: string): string | undefined {
  const label = sniff(bytes, {
    xml: type.endsWith("xml"),
    defaultEncoding: "UTF-8",
    ...(charset !== undefined && { transportLayerEncodingLabel: charset }),
  });
  if (label === "replacement") return undefined;
  return decoderFor(label === "x-user-defined" ? "windows-1252" : label)?.decode(bytes);
}

function decoderFor(label: string) {
  try {
    return new TextDecoder(label);
  } catch {
    return undefined;
  }
}
