/** @file How the reader calls this program: from a checkout through npm, installed by its name. */
export const MGRPO = import.meta.url.endsWith(".ts") ? "npm run mgrpo --" : "mgrpo";
