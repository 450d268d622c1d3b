/** @file A tag in the plain tone. */
import type { Tag } from "../../ui/views.ts";

export const plain = (text: string): Tag => ({ text, tone: "plain" });
