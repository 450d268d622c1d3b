/** @file Kills each process at each of its writes, in a run whose sub-agent delegates (deaths.ts). */
import { levelsConfig, levelsEngine } from "../fixtures/relay/levels.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(levelsConfig(SHORT_RUN), { engineOf: () => levelsEngine });
