/** @file Environment variables of a test whose process runs other tests too. */

/**
 * Sets variables and returns a function that restores their earlier values. Both change `process.env` in place: threads would not see an object
 * that replaces it.
 */
export function setEnvironment(variables: Readonly<Record<string, string>>): () => void {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  return () => {
    for (const [name, value] of before)
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
  };
}
