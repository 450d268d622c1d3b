/**
 * @file `mgrpo/judges`: rewards from a model behind an API. `judgedRewards({ model, config: judge })` returns `Rewards`. `judge` is the setting
 * `judge` of the run's config, and `model` is `openLanguageModel(judge.model)`, which throws `config-invalid` if the API key's variable is empty.
 * `judgeCriteria` reads the shipped criteria. Scores are in [0, 1], costs in US dollars. If the judge's votes give no verdict (say, its
 * responses cannot be parsed), scoring rejects with `judge-failed`, or, if the API refuses the requests (a wrong key, say), with `endpoint-refused`.
 */
export { judgeCriteria } from "../adapters/judges/criteria.ts";
export { judgedRewards } from "../adapters/judges/judged-rewards.ts";
export { openLanguageModel } from "../adapters/llm/open.ts";
export type { LanguageModel } from "../core/language-model-ports.ts";
