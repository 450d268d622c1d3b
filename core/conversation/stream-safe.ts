/**
 * @file Text without long runs of combining marks, in the manner of Unicode's Stream-Safe Text Format (UAX #15). Normalization sorts the marks
 * of a character in quadratic time: 500,000 of them, which any page can contain, take minutes.
 */

/** No language needs more on one character. */
const MAX_MARKS = 30;
/** Halfwidth voiced sound marks are letters that become combining marks in the compatibility forms. */
const LONG_RUN = new RegExp(`([\\p{M}\\uff9e\\uff9f]{${MAX_MARKS}})[\\p{M}\\uff9e\\uff9f]+`, "gu");

/** Keeps the first 30 marks of each run. The result normalizes in linear time. */
export const toStreamSafe = (text: string): string => text.replace(LONG_RUN, "$1");
