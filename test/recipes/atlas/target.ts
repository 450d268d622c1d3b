/** @file Atlas as the target of attacks on its rewards. */
import { taskOf } from "../../../recipes/atlas/questions/look-up.ts";
import { rewards } from "../../../recipes/atlas/rewards.ts";
import { pageText } from "../../../recipes/atlas/tools.ts";
import type { Target } from "../cases.ts";

export const atlas: Target = {
  name: "atlas",
  rewards,
  pageText,
  taskFor: taskOf,
  describes: false,
  // The task's terms as a share of the query's.
  queryWorth: ({ lookUp }, terms) => (lookUp.ask === "country" ? lookUp.where.length : 1) / terms.length,
  spellings: (report) => [report, ` ${report} `, report.toUpperCase()],
  nonsense: ["capital of no such page", "country with borders nowhere", "country with capital  , borders  "],
};
