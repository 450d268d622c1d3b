/** @file The names of the benchmarks, each a module in bench/. */

export const DEFAULT_BENCHMARKS = [
  "engine",
  "rollouts",
  "gateway",
  "gateway-load",
  "store",
  "ui",
  "bundles",
  "run",
  "lora",
  "sampling",
  "trees",
  "memory",
  "run-memory",
];

/**
 * Those that run only when named: `gpu` needs a GPU, and `create` the npm registry; `pipeline` takes half an hour; `alignment` measures an
 * algorithm and `power` measures comparisons, not this machine; `peers` needs other projects installed (bench/peers/README.md).
 */
export const OTHER_BENCHMARKS = ["gpu", "create", "pipeline", "alignment", "power", "peers"];
