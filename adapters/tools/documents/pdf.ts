/** @file The text of a PDF, page by page, through unpdf. */
import { getDocumentProxy, getMeta } from "unpdf";
import { type Document, type Extracted, TOO_COMPLEX, unreadableBy } from "./document.ts";

/** Marked content has no `str`. */
interface TextItem {
  readonly str?: string;
  readonly hasEOL?: boolean;
}

type Pdf = Awaited<ReturnType<typeof getDocumentProxy>>;

/** Stands before the text, whose end may be cut. */
const INCOMPLETE = "[some text is missing: it is in a Chinese, Japanese or Korean encoding that cannot be read]\n\n";

export async function extractPdf({ bytes, maxCharacters }: Document): Promise<Extracted> {
  let isIncomplete = false;
  const BinaryDataFactory = withoutData(() => {
    isIncomplete = true;
  });
  try {
    const options = { isEvalSupported: false, verbosity: 0, BinaryDataFactory };
    const pdf = await getDocumentProxy(Uint8Array.from(bytes), options);
    const { info } = await getMeta(pdf);
    const text = await textOf(pdf, maxCharacters);
    await pdf.destroy();
    const title = typeof info["Title"] === "string" ? info["Title"] : "";
    return { title, text: isIncomplete ? INCOMPLETE + text : text };
  } catch (error) {
    const isLocked = error instanceof Error && error.name === "PasswordException";
    if (isLocked) return { unreadable: "it is a password-protected PDF" };
    return isHiddenRangeError(error) ? TOO_COMPLEX : unreadableBy(error, "a damaged PDF");
  }
}

/** pdf.js throws an UnknownErrorException in place of any error that it does not know, with that error as text in `details`. */
const isHiddenRangeError = (error: unknown): boolean =>
  error instanceof Error && "details" in error && /^RangeError\b/.test(String(error.details));

async function textOf(pdf: Pdf, maxCharacters: number): Promise<string> {
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
  return pages.join("\n\n");
}

/** unpdf comes without the tables of the predefined encodings (CMaps). pdf.js silently leaves out text whose table is missing. */
function withoutData(onMissingTable: () => void) {
  return class {
    async fetch({ kind }: { readonly kind: string }): Promise<never> {
      if (kind === "cMapUrl") onMissingTable();
      throw new Error(`unpdf has no data for ${kind}`);
    }
  };
}
