/**
 * @file The text of a document as Markdown: HTML, PDF and Excel workbooks; plain text as it is. Runs in a thread (reader-thread.ts), because a
 * document can take any amount of time and memory. Libraries are loaded when a document first needs them.
 */
import sniff from "html-encoding-sniffer";
import type { Document, Extracted } from "./document.ts";

const PDF = "application/pdf";
const XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const HTML = /^(text\/html|application\/xhtml\+xml)$/;
const TEXT = /^(text\/.+|application\/(.+\+)?(json|xml|yaml|x-ndjson|javascript))$/;

export async function extract(document: Document): Promise<Extracted> {
  const [name = "", ...parameters] = document.type.toLowerCase().split(";");
  const charset = /charset="?([^";]+)/.exec(parameters.join(";"))?.[1]?.trim();
  const type = name.trim() || sniffType(document.bytes);
  if (type === PDF) return (await import("./pdf.ts")).extractPdf(document.bytes);
  if (type === XLSX) return (await import("./spreadsheet.ts")).extractSpreadsheet(document.bytes);
  const isHtml = HTML.test(type);
  if (!isHtml && !TEXT.test(type))
    return { unreadable: `it is ${type || "of an unknown type"}, which this tool cannot read` };
  const text = decode(document.bytes, charset, type);
  if (text.includes("\0")) return { unreadable: "it is binary data" };
  if (isHtml) return (await import("./html.ts")).extractHtml(text, document.url);
  return { title: "", text: text.trim() };
}

function sniffType(bytes: Uint8Array): string {
  const start = Buffer.from(bytes.subarray(0, 512)).toString("latin1").trimStart();
  if (start.startsWith("%PDF-")) return PDF;
  return /^<(!doctype html|html|head|body)/i.test(start) ? "text/html" : "text/plain";
}

function decode(bytes: Uint8Array, charset: string | undefined, type: string): string {
  const label = sniff(bytes, {
    xml: type.endsWith("xml"),
    defaultEncoding: "UTF-8",
    ...(charset !== undefined && { transportLayerEncodingLabel: charset }),
  });
  return new TextDecoder(label === "x-user-defined" ? "windows-1252" : label).decode(bytes);
}
