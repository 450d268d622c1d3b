/** @file Kills each process at each of its writes, in a run whose rollouts the workers run (deaths.ts). */
import { relayConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(relayConfig(SHORT_RUN));
