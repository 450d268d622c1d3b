/**
 * @file `mgrpo/base-model`: your own base models, made by `mgrpo pretrain` from a recipe's demonstrations. `smallModel` describes one
 * for `Recipe.baseModels`; it throws `recipe-invalid` for sizes that no model can have. `callTurn` and `answerTurn` write what an
 * assistant says in a demonstration: tool calls as Qwen's JSON between `<tool_call>` tags, an answer between `<answer>` tags.
 * `callOpening` writes the constant start of a call's JSON: each of a model's `openings` is one token of its vocabulary.
 */
export { type ModelShape, type SmallModel, smallModel } from "../recipes/small-models/base-model.ts";
export { callOpening, type TokenizerDesign } from "../recipes/small-models/tokenizer.ts";
export { answerTurn, callTurn } from "../recipes/small-models/turns.ts";
