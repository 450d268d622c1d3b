/** @file Kills each process at each of its writes, in a run whose steps overlap (deaths.ts). */
import { relayConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(relayConfig({ ...SHORT_RUN, steps: 3, staleness: 1, algorithm: { tisCap: 2 } }));
