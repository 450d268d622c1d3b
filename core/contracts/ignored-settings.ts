/**
 * @file Settings that nothing would read, weight decay that a server may not apply as meant, and a runner's URL with a user name or password.
 * They are refused where a run begins, and nowhere else: `RunConfig` also reads stored configs, and those of older releases may have them.
 *
 * A rule holds for every arm and team. A part that an arm or a switch turns off keeps its settings, since a comparison gives all runs the same
 * ones: `d` under `no-alignment`, the optimizer of a frozen agent, `evaluation.every` without suites. For the same reason, a comparison refuses
 * only what none of its runs would read (cli/compare/plan.ts). A value equal to the default is never refused: the user may not have set it.
 */
import { AlgorithmConfig } from "./algorithm-config.ts";
import type { RunConfig } from "./config.ts";
import { EngineConfig } from "./engine.ts";
import { hasNoCredentials } from "./http-url.ts";
import { isEndpointPolicy } from "./language-model.ts";
import { ownsPolicy } from "./shared-policy.ts";

/** The setting's path, and what to do about it. */
type IgnoredSetting = readonly [path: string, message: string];

/** One rule for each setting that is refused. */
export const IGNORED_SETTINGS: Readonly<Record<string, (config: RunConfig) => IgnoredSetting[]>> = {
  constantTokens({ algorithm: { aggregation, constantTokens } }) {
    if (aggregation === "constant" || constantTokens === defaults().constantTokens) return [];
    const message = `does nothing under aggregation ${aggregation}: remove it, or set aggregation to constant`;
    return [["algorithm.constantTokens", message]];
  },
  klEstimator({ algorithm: { kl } }) {
    if (kl.coefficient > 0 || kl.estimator === defaults().kl.estimator) return [];
    return [["algorithm.kl.estimator", "does nothing at kl.coefficient 0: remove it, or set kl.coefficient"]];
  },
  epsilon({ algorithm: { advantageScale, epsilon } }) {
    if (advantageScale !== "none" || epsilon === defaults().epsilon) return [];
    const message = "does nothing under advantageScale none: remove it, or set advantageScale to std or batch";
    return [["algorithm.epsilon", message]];
  },
  threads({ agents }) {
    return Object.entries(agents).flatMap(([name, { policy, engine }]): IgnoredSetting[] => {
      const isRead = !ownsPolicy(agents, name) || !hasNoThreads(policy);
      if (isRead || engine.threads === EngineConfig.parse({}).threads) return [];
      return [[`agents.${name}.engine.threads`, `does nothing with policy '${policy}': remove it`]];
    });
  },
  tinkerWeightDecay({ agents }) {
    return Object.entries(agents).flatMap(([name, { policy, optimizer }]): IgnoredSetting[] => {
      if (!ownsPolicy(agents, name) || !policy.startsWith("tinker:")) return [];
      if (optimizer.kind === "server" || optimizer.weightDecay === 0) return [];
      const message = "a Tinker server may ignore it, or decay other models' adapters as well: set it to 0";
      return [[`agents.${name}.optimizer.weightDecay`, message]];
    });
  },
  runnerCredentials({ runner }) {
    if (typeof runner === "string" || hasNoCredentials(runner.url)) return [];
    return [["runner.url", "must not contain a user name or password: error messages quote it"]];
  },
};

const defaults = (): AlgorithmConfig => AlgorithmConfig.parse({});

/** Policies whose engine has no threads to set. With a Tinker server, `RunConfig` itself refuses threads. */
const hasNoThreads = (policy: string): boolean =>
  policy === "eager" || policy === "eager-gpu" || isEndpointPolicy(policy);

/** What to refuse in a config, by the rules above. */
export const ignoredSettings = (config: RunConfig): IgnoredSetting[] =>
  Object.values(IGNORED_SETTINGS).flatMap((rule) => rule(config));
