/** @file A tag without a tone. */
import type { Tag } from "../../ui/views.ts";

export const plain = (text: string): Tag => ({ text, tone: "plain" });
