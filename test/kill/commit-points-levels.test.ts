/** @file Deaths at every write of a run whose sub-agent delegates (deaths.ts). */
import { levelsConfig, levelsEngine } from "../fixtures/relay/levels.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(levelsConfig(SHORT_RUN), { engineOf: () => levelsEngine }, [
  ["before", "searcher", "reader"],
  ["after", "reader", "main"],
  ["after", "searcher", "functions"],
]);
