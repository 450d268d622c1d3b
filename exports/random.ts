/**
 * @file `mgrpo/random`: named random streams. The same name gives the same draws on every machine, whatever is drawn
 * from other streams; `uniform()` is in [0, 1).
 */
export { type Random, type StreamName, stream } from "../core/random.ts";
