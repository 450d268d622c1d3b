/** @file The text of a PDF, page by page, through unpdf. */
import { getDocumentProxy, getMeta } from "unpdf";
import type { Document, Extracted } from "./document.ts";

/** Marked content has no `str`. */
interface TextItem {
  readonly str?: string;
  readonly hasEOL?: boolean;
}

export async function extractPdf({ bytes, maxCharacters }: Document): Promise<Extracted> {
  try {
    const pdf = await getDocumentProxy(Uint8Array.from(bytes), { isEvalSupported: false, verbosity: 0 });
    const { info } = await getMeta(pdf);
    const pages: string[] = [];
    let room = maxCharacters;
    for (let i = 1; i <= pdf.numPages && room > 0; i++) {
      const page = await pdf.getPage(i);
      const { items }: { items: readonly TextItem[] } = await page.getTextContent();
      const text = items.map(({ str, hasEOL }) => (str ?? "") + (hasEOL ? "\n" : "")).join("");
      page.cleanup();
      pages.push(`[page ${i} of ${pdf.numPages}]\n${text.trim()}`);
      room -= pages.at(-1)?.length ?? 0;
    }
    await pdf.destroy();
    return { title: typeof info["Title"] === "string" ? info["Title"] : "", text: pages.join("\n\n") };
  } catch (error) {
    const isLocked = error instanceof Error && error.name === "PasswordException";
    return { unreadable: isLocked ? "it is a password-protected PDF" : "it is a damaged PDF" };
  }
}
