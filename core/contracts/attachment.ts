/** @file A question's attached file, under `facts.attachment`: its text, as a tool shows it. */
import * as z from "zod";

/** The tool that reads the attachment. */
export const READ_ATTACHMENT = "read_attachment";

export const Attachment = z.strictObject({
  /** The benchmark's name for the file. */
  name: z.string().min(1),
  title: z.string(),
  text: z.string(),
  /** Why there is no text. */
  unreadable: z.string().exactOptional(),
});
export type Attachment = z.infer<typeof Attachment>;
