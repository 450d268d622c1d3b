/** @file The tools of tally. */
import { tools as tallyTools } from "../tools.ts";

export const tools = tallyTools;
