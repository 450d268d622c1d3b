/** @file Deaths at every write of a run whose rollouts this program runs (deaths.ts). */
import { relayConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(relayConfig(SHORT_RUN));
