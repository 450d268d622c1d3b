/** @file Cuts a query to what a search API accepts: its length is the agent's choice, and must not become a failure of the backend. */
import { clip } from "../../documents/parts.ts";

export interface QueryLimits {
  readonly characters: number;
  /** Absent: any number. */
  readonly words?: number;
}

/** Cuts between two words, or within the first word if that alone is too long. Runs of white space become one space. */
export function cutQuery(query: string, { characters, words = Number.POSITIVE_INFINITY }: QueryLimits): string {
  const text = query.trim().split(/\s+/).slice(0, words).join(" ");
  if (text.length <= characters) return text;
  const end = text.lastIndexOf(" ", characters);
  return end > 0 ? text.slice(0, end) : clip(text, characters);
}
