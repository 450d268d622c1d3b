/** @file The id of an evaluation, which ends its folder's name: evaluations with the same id are the same evaluation. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { sha256 } from "../../engine/hash.ts";
import { type Bases, hashesOf } from "../local/base-models.ts";

/**
 * Same team, questions and settings: same evaluation. Models, questions, a benchmark's criteria and its data count by their content, wherever they
 * are read from. The prices of agents and the judge do not count. The recipe's folder, the tools' cache folder and the prices of tools do count: a
 * resumed evaluation uses those that it started with.
 */
export async function evaluationId(config: RunConfig, bases: Bases, questions: QuestionSet): Promise<string> {
  const { questions: _, ...settings } = config;
  const agents = Object.entries(config.agents).map(([name, { model: _model, endpoint, ...agent }]) => [
    name,
    { ...agent, ...(endpoint && { endpoint: { ...endpoint, usdPerMillionTokens: null } }) },
  ]);
  const { suites, firstTeam } = config.evaluation;
  const evaluation = suites.map(({ data: _data, criteria: _criteria, ...suite }) => suite);
  const judge = config.judge && { ...config.judge, usdPerMillionTokens: null };
  const asked = { ...settings, agents, judge, evaluation, ...(firstTeam !== undefined && { firstTeam }) };
  return sha256(canonicalJson({ asked, files: await hashesOf(bases), questions })).slice(0, 12);
}
