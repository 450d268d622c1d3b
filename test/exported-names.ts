/** @file The names that a file declares and exports, by the parser that Vitest itself uses, and those that several files export. */
import { type ESTree, parseSync } from "rolldown/utils";

/** A file, and whether the name is one of a type there: an interface, a type alias, a class or an enum. */
interface Exporter {
  readonly file: string;
  readonly isType: boolean;
}

/**
 * Name -> the files that export it, if there are several. A Zod schema and its type share a name within a file.
 * @param sources file -> its text.
 * @param projectOf the project of a file, if it is of one: projects may share names of values.
 */
export function sharedNames(
  sources: ReadonlyMap<string, string>,
  projectOf: (file: string) => string | undefined,
): Map<string, string[]> {
  const exporters = new Map<string, Exporter[]>();
  for (const [file, source] of sources)
    for (const { name, isType } of exportsOf(file, source))
      exporters.set(name, [...(exporters.get(name) ?? []), { file, isType }]);
  const shared = [...exporters].filter(([, found]) => {
    const files = new Set(found.map(({ file }) => file));
    const projects = new Set([...files].map(projectOf));
    const types = new Set(found.flatMap(({ file, isType }) => (isType ? [file] : [])));
    const areApart = projects.size === files.size && !projects.has(undefined);
    return files.size > 1 && (!areApart || types.size > 1);
  });
  return new Map(shared.map(([name, found]) => [name, [...new Set(found.map(({ file }) => file))]]));
}

/** Declared and exported here; what a file only passes on is its declaration's. */
function exportsOf(file: string, source: string): { readonly name: string; readonly isType: boolean }[] {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors.map(({ message }) => message).join("; ")}`);
  return program.body.flatMap((statement) => {
    if (statement.type !== "ExportNamedDeclaration" || statement.declaration === null) return [];
    const isType = !/^(Variable|Function)Declaration$/.test(statement.declaration.type);
    return declaredNames(statement.declaration).map((name) => ({ name, isType }));
  });
}

export function declaredNames(declaration: ESTree.Declaration | null): string[] {
  if (declaration === null) return [];
  const ids = declaration.type === "VariableDeclaration" ? declaration.declarations : [declaration];
  return ids.flatMap((one) => ("id" in one && one.id?.type === "Identifier" ? one.id.name : []));
}
