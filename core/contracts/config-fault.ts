/** @file What a check of a config reports. */

/** The path of a setting, and why it cannot have its value or what to write instead. */
export type ConfigFault = readonly [path: readonly (string | number)[], message: string];
