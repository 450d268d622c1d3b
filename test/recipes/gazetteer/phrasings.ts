/** @file Recognizes the wordings of questions and tasks. */
import { escapeRegExp } from "../../../recipes/gazetteer/world/prose.ts";

/** Matches a text that has the phrasing, whatever fills its slots. */
export const phrasingPattern = (phrasing: string): RegExp =>
  new RegExp(
    phrasing
      .split(/\{\w+\}/)
      .map(escapeRegExp)
      .join(".+"),
  );
