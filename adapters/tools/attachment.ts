/**
 * @file The tool `read_attachment`: the file that comes with a question, as text. The text is part of the question (adapters/benchmarks), so
 * every worker has it, and the tool takes no path.
 */
import * as z from "zod";
import { Attachment, READ_ATTACHMENT } from "../../core/contracts/attachment.ts";
import type { Tool } from "../../core/ports.ts";
import { showPart } from "./documents/parts.ts";

export const attachment: Tool<{ part?: number | undefined }> = {
  name: READ_ATTACHMENT,
  description: "Reads the file that comes with the question, in parts if it is long.",
  parameters: z.strictObject({ part: z.int().positive().optional() }),
  async run({ part = 1 }, context) {
    const { data } = z.object({ attachment: Attachment }).safeParse(context.question.facts);
    if (!data) return "no file comes with this question";
    const { name, title, text, unreadable } = data.attachment;
    if (unreadable !== undefined) return `${name} cannot be read: ${unreadable}`;
    if (text.trim() === "") return `${name} contains no text`;
    return showPart({ title, source: name, text }, part, context);
  },
};
