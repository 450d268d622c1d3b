/** @file Kills each process at each of its writes, in a run whose agents share a policy (deaths.ts). */
import { sharedRelayConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(sharedRelayConfig(SHORT_RUN));
