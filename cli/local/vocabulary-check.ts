/** @file Detects another model's tokenizer: certainly if a token lies beyond the embedding, possibly if many rows have no token. */
import type { CheckpointFiles } from "../../core/ports.ts";
import { checkVocabulary } from "../../engine/tokenizer/vocabulary.ts";

/** Models pad their embedding by a few rows, so almost every row has a token. */
const LEAST_SHARE_OF_ROWS = 0.9;

export const OWN_TOKENIZER = "check that it is the model's own";

/** A message if few of the embedding's rows have a token, otherwise undefined. Throws `tokenizer-damaged` if a token lies beyond them. */
export function sparseVocabulary(files: CheckpointFiles, rows: number): string | undefined {
  const tokens = checkVocabulary(files, rows);
  return tokens < LEAST_SHARE_OF_ROWS * rows
    ? `tokenizer.json has ${tokens} tokens, and the embedding ${rows} rows`
    : undefined;
}

/** Checks the tokenizer of an agent's model. `note` gets a line if it may be another model's. */
export function checkTokenizer(
  agent: string,
  files: CheckpointFiles,
  rows: number,
  note: (message: string) => void,
): void {
  const sparse = sparseVocabulary(files, rows);
  if (sparse !== undefined) note(`agents.${agent}: ${sparse}: ${OWN_TOKENIZER}`);
}
