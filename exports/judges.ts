/**
 * @file `mgrpo/judges`: rewards from a model behind an API. `judgedRewards({ model, config: judge })` is a `Rewards`, where `judge` is that of
 * the run's config and `model` is `openLanguageModel(judge.model)`, which throws `config-invalid` if the API key's variable is empty.
 * `judgeCriteria` reads the shipped criteria. Scores are in [0, 1], costs in US dollars; an unparsable judge response rejects with
 * `judge-failed`.
 */
export { judgeCriteria } from "../adapters/judges/criteria.ts";
export { judgedRewards } from "../adapters/judges/judged-rewards.ts";
export { openLanguageModel } from "../adapters/llm/open.ts";
export type { LanguageModel } from "../core/language-model-ports.ts";
