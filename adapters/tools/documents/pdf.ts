/** @file The text of a PDF, page by page, with unpdf. */
import { extractText, getDocumentProxy, getMeta } from "unpdf";
import type { Extracted } from "./document.ts";

export async function extractPdf(bytes: Uint8Array): Promise<Extracted> {
  try {
    const pdf = await getDocumentProxy(Uint8Array.from(bytes), { isEvalSupported: false, verbosity: 0 });
    const { info } = await getMeta(pdf);
    const { text } = await extractText(pdf);
    const pages = text.map((page, i) => `[page ${i + 1} of ${text.length}]\n${page.trim()}`);
    return { title: typeof info["Title"] === "string" ? info["Title"] : "", text: pages.join("\n\n") };
  } catch (error) {
    const isLocked = error instanceof Error && error.name === "PasswordException";
    return { unreadable: isLocked ? "it is a PDF with a password" : "it is a damaged PDF" };
  }
}
