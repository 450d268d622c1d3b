/**
 * @file Human labels that a judge is compared with: answers labeled correct or wrong, or scored sub-agent work (eq 5). A file
 * holds one of the two kinds, one object per line.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { readText } from "../local/run-folder.ts";

const Id = z.string().min(1).exactOptional();

export const AnswerLabel = z.strictObject({
  id: Id,
  question: z.string().min(1),
  reference: z.string().min(1),
  answer: z.string(),
  /** The human label. */
  correct: z.boolean(),
});
export type AnswerLabel = z.infer<typeof AnswerLabel>;

export const WorkLabel = z.strictObject({
  id: Id,
  /** The sub-agent's task. */
  task: z.string().min(1),
  /** The sub-agent's turns: its output, and the responses of its tools. */
  steps: z
    .array(
      z.strictObject({
        said: z.string(),
        responses: z.array(z.strictObject({ tool: z.string(), text: z.string() })).default([]),
      }),
    )
    .default([]),
  report: z.string(),
  /** The human score, in [0, 1]. */
  score: z.number().min(0).max(1),
});
export type WorkLabel = z.infer<typeof WorkLabel>;

export type Labels =
  | { readonly kind: "answers"; readonly labels: readonly AnswerLabel[] }
  | { readonly kind: "work"; readonly labels: readonly WorkLabel[] };

const EXAMPLES = [
  '{"question": "…", "reference": "…", "answer": "…", "correct": true}',
  '{"task": "…", "steps": […], "report": "…", "score": 0.7}',
].join(" or ");

/** The first line determines the kind of all lines. An invalid line throws `config-invalid` with its number. */
export function readLabels(file: string): Labels {
  const lines = readText(file)
    .split("\n")
    .flatMap((text, i) => (text.trim() === "" ? [] : { text, at: `${file}, line ${i + 1}` }));
  const [first] = lines;
  if (!first)
    throw new MgrpoError("config-invalid", `${file}: there are no labels; write one object per line: ${EXAMPLES}`);
  const parsed = <S extends z.ZodType>(schema: S): z.infer<S>[] =>
    lines.map(({ text, at }) => parseJson(schema, text, at, "config-invalid"));
  const isWork = "score" in parseJson(z.looseObject({}), first.text, first.at, "config-invalid");
  return isWork ? { kind: "work", labels: parsed(WorkLabel) } : { kind: "answers", labels: parsed(AnswerLabel) };
}
