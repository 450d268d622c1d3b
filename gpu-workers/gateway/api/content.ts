/** @file The content of a message: text, or parts, which must be text too. */
import * as z from "zod";
import { unsupported } from "./errors.ts";

const ContentPart = z.looseObject({ type: z.string(), text: z.string().optional(), refusal: z.string().optional() });

export const Content = z.union([z.string(), z.array(ContentPart)]);
export type Content = z.infer<typeof Content>;

/** @param where the request's parameter, for errors. @param between separates parts. */
export function textOf(content: Content, where: string, between = ""): string {
  if (typeof content === "string") return content;
  const texts = content.map(({ type, text, refusal }) => {
    const written = text ?? refusal;
    if (written !== undefined) return written;
    throw unsupported(where, `${where}: a part of type '${type}' is not supported: these agents read only text`);
  });
  return texts.join(between);
}
