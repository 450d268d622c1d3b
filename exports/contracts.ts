/**
 * @file `mgrpo/contracts`: the data that crosses process boundaries, each a Zod schema and its type under one name. `RunConfig` is the one
 * config: strict, with all defaults (`RunConfigInput`: as written, without them). The others are its parts, and the records and objects that
 * a run leaves in its store. Durations are in seconds, lengths in tokens unless a name says otherwise. `startedAt` is in milliseconds and
 * `expiresAt` in seconds, both since 1970. Hashes are SHA-256 in lower-case hex; a `digest` is the first 128 bits in base64url.
 * A schema's `parse` throws a `ZodError`. `algorithmOf` is a function: the algorithm's settings for one agent, its overrides included.
 */

export { AgentConfig, OptimizerConfig, ScheduledOptimizer } from "../core/contracts/agent-config.ts";
export { AlgorithmConfig } from "../core/contracts/algorithm-config.ts";
export { AlgorithmOverrides, algorithmOf } from "../core/contracts/algorithm-overrides.ts";
export { Manifest, TeamManifest } from "../core/contracts/checkpoint.ts";
export { Arm, RunConfig, type RunConfigInput } from "../core/contracts/config.ts";
export { Conversation, StopReason, ToolCall, ToolResponse, Turn } from "../core/contracts/conversation.ts";
export { EngineConfig } from "../core/contracts/engine.ts";
export { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
export { JudgeConfig, Verdict } from "../core/contracts/judge.ts";
export { LanguageModelSpec, type LanguageModelSpecInput } from "../core/contracts/language-model.ts";
export { LoraConfig } from "../core/contracts/lora.ts";
export { Question, QuestionFiles, QuestionSet, SuiteQuestions } from "../core/contracts/question.ts";
export { AgentBatch, GroupRecord, RolloutScore, RunRecord, StepRecord } from "../core/contracts/records.ts";
export { Invocation, Outcome, RolloutAddress, Sampling, Trajectory } from "../core/contracts/rollout.ts";
export { OptimizerProbe, ServerOptimizer } from "../core/contracts/server-optimizer.ts";
