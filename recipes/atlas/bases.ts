/**
 * @file The base models: the planner; the smaller searcher, with another kind of tokenizer; the single agent, with all tools; one model for
 * planner and searcher; and the planner of atlas-two-subs. `mgrpo pretrain` makes them from demonstrations alone; their files are in models/.
 */
import { join } from "node:path";
import type { Arm } from "../../core/contracts/config.ts";
import type { BaseModel } from "../../core/recipe.ts";
import { type ModelShape, smallModel } from "../small-models/base-model.ts";
import { callOpening, type TokenizerDesign } from "../small-models/tokenizer.ts";
import { demonstrationsOf } from "./demonstrations/demonstrations.ts";

export const MODELS = join(import.meta.dirname, "models");
/** The models' context length, in tokens. */
export const CONTEXT_TOKENS = 640;

const SEED = 1;
const LARGER: ModelShape = { layers: 3, width: 128, heads: 4, keyValueHeads: 2, ffn: 256 };
const SMALLER: ModelShape = { layers: 3, width: 96, heads: 4, keyValueHeads: 2, ffn: 256 };

const SEARCH = callOpening("search", "query");
const VISIT = callOpening("visit", "title");
const CALCULATE = callOpening("calculate", "expression");
const delegateTo = (agent: string) => callOpening("delegate", "task", { agent });

const PLANNER = { kind: "byte-pairs", merges: 200, words: 900 } as const;

export const baseModels: readonly BaseModel[] = [
  base("main", "mgrpo", "main", LARGER, { ...PLANNER, openings: [delegateTo("searcher"), CALCULATE] }, 4e6),
  base("searcher", "mgrpo", "searcher", SMALLER, { kind: "unigram", merges: 1500, openings: [SEARCH, VISIT] }, 8e6),
  base(
    "main",
    "shared-policy",
    "shared",
    LARGER,
    { ...PLANNER, openings: [delegateTo("searcher"), SEARCH, VISIT, CALCULATE] },
    12e6,
  ),
  base("main", "single-agent", "single", LARGER, { ...PLANNER, openings: [SEARCH, VISIT, CALCULATE] }, 12e6),
];

/** The planner of recipe atlas-two-subs, which delegates the search for a country to a second sub-agent. */
export const plannerOfTwo = base(
  "main",
  "mgrpo",
  "main-of-two",
  LARGER,
  { ...PLANNER, openings: [delegateTo("searcher"), delegateTo("finder"), CALCULATE] },
  4e6,
);

function base(
  agent: string,
  arm: Arm,
  name: string,
  shape: ModelShape,
  { openings, ...tokenizer }: TokenizerDesign,
  tokens: number,
): BaseModel {
  return smallModel({
    agent,
    arm,
    folder: join(MODELS, name),
    seed: SEED,
    demonstrations: () => demonstrationsOf(name, SEED),
    openings,
    tokens,
    shape,
    tokenizer,
    contextTokens: CONTEXT_TOKENS,
  });
}
