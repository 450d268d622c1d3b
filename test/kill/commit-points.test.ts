/** @file Kills each process at each of its writes, in a run whose rollouts this program runs (deaths.ts). */
import { relayConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(relayConfig(SHORT_RUN));
