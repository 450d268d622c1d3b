/**
 * @file `mgrpo/judges`: rewards from a model behind an API. `judgedRewards({ model, config })` is a `Rewards`; the model comes from
 * `openLanguageModel(config.judge.model)`, which throws `config-invalid` when the API key's variable is not set. `judgeCriteria` reads the
 * shipped criteria. Scores are in [0, 1], costs in US dollars; an unparsable judge response rejects with `judge-failed`.
 */
export { judgeCriteria } from "../adapters/judges/criteria.ts";
export { judgedRewards } from "../adapters/judges/judged-rewards.ts";
export { openLanguageModel } from "../adapters/llm/open.ts";
export type { LanguageModel } from "../core/language-model-ports.ts";
