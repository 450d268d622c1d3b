/**
 * @file Freezes data that the user's code gets, with everything in it. All rollouts of a process share their questions: a tool or an app that
 * changed one would change it for the others.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  Object.freeze(value);
  return value;
}
