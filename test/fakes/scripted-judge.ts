/** @file A judge's language model. The test decides each verdict, from the JSON object in the request. The requests are recorded. */
import { JudgeConfig } from "../../core/contracts/judge.ts";
import type { CompletionRequest, LanguageModel } from "../../core/language-model-ports.ts";

/** The JSON object that a judge is sent: an answer, or the work of a sub-agent. */
export interface JudgeInputFields {
  readonly question?: string;
  readonly reference?: string;
  readonly answer?: string;
  readonly task?: string;
  readonly report?: string;
}

export interface ScriptedJudge extends LanguageModel {
  readonly requests: CompletionRequest[];
}

/** `decide` gives the fields of the verdict, or throws. `call` counts from 0. Each call uses 100 input and 10 output tokens. */
export function scriptedJudge(decide: (sent: JudgeInputFields, call: number) => object): ScriptedJudge {
  const requests: CompletionRequest[] = [];
  return {
    requests,
    async complete(request) {
      requests.push(request);
      const fields = decide(JSON.parse(request.messages.at(-1)?.content ?? ""), requests.length - 1);
      return { text: JSON.stringify(fields), usage: { inputTokens: 100, outputTokens: 10 } };
    },
  };
}

/** A verdict: correct if the answer contains the reference. */
export const referenceVerdict = ({ answer = "", reference = "" }: JudgeInputFields) => ({
  reason: "compared",
  stated: answer,
  correct: answer.includes(reference),
});

export const judgeConfig = (changes: object = {}): JudgeConfig =>
  JudgeConfig.parse({
    model: "openai:http://127.0.0.1:1/v1#judge",
    criteria: { correct: "Compare.", expert: "Look at the work." },
    ...changes,
  });
