/** @file The file that comes with a question: under `facts.attachment`, as the text that a tool shows of it. */
import * as z from "zod";

/** The tool by which a team reads it. */
export const READ_ATTACHMENT = "read_attachment";

export const Attachment = z.strictObject({
  /** As its benchmark names it. */
  name: z.string().min(1),
  title: z.string(),
  text: z.string(),
  /** Why there is no text. */
  unreadable: z.string().exactOptional(),
});
export type Attachment = z.infer<typeof Attachment>;
