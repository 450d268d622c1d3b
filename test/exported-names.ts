/** @file The names that files declare and export, read with Rolldown's parser, and the names that several files define. */
import { type ESTree, parseSync } from "rolldown/utils";

/** A file that exports a name, and whether the name is a type there: an interface, a type alias, a class or an enum. */
interface Exporter {
  readonly file: string;
  readonly isType: boolean;
}

/** A top-level declaration. */
interface Declared {
  readonly name: string;
  readonly kind: string;
  readonly isExported: boolean;
}

/**
 * Name -> the files that export it, if there are several. A Zod schema and its type share a name within a file.
 * @param sources file -> its text.
 * @param projectOf the project of a file, if it belongs to one: projects may share names of values.
 */
export function sharedNames(
  sources: ReadonlyMap<string, string>,
  projectOf: (file: string) => string | undefined,
): Map<string, string[]> {
  const exporters = new Map<string, Exporter[]>();
  for (const [file, source] of sources)
    for (const { name, kind, isExported } of declarationsOf(file, source))
      if (isExported) exporters.set(name, [...(exporters.get(name) ?? []), { file, isType: isType(kind) }]);
  const shared = [...exporters].filter(([, found]) => {
    const files = new Set(found.map(({ file }) => file));
    const projects = new Set([...files].map(projectOf));
    const types = new Set(found.flatMap(({ file, isType }) => (isType ? [file] : [])));
    const areApart = projects.size === files.size && !projects.has(undefined);
    return files.size > 1 && (!areApart || types.size > 1);
  });
  return new Map(shared.map(([name, found]) => [name, [...new Set(found.map(({ file }) => file))]]));
}

/**
 * Name of a type -> the files that declare a private type of this name although another file exports one. A schema (a constant in
 * PascalCase) counts as a type.
 * @param sources file -> its text.
 */
export function shadowedTypes(sources: ReadonlyMap<string, string>): Map<string, string[]> {
  const exporters = new Map<string, Set<string>>();
  const owners = new Map<string, Set<string>>();
  for (const [file, source] of sources)
    for (const { name, kind, isExported } of declarationsOf(file, source)) {
      if (!isType(kind) && !isSchema(name, kind)) continue;
      const files = isExported ? exporters : owners;
      files.set(name, (files.get(name) ?? new Set()).add(file));
    }
  const shadowed = [...exporters].map(([name, exporting]): [string, string[]] => [
    name,
    [...(owners.get(name) ?? [])].filter((file) => !exporting.has(file)),
  ]);
  return new Map(shadowed.filter(([, files]) => files.length > 0));
}

const isType = (kind: string) => !/^(VariableDeclaration|FunctionDeclaration|TSDeclareFunction)$/.test(kind);
const isSchema = (name: string, kind: string) => kind === "VariableDeclaration" && /^[A-Z]\w*[a-z]/.test(name);

/** Declarations at the top level. A re-exported name counts only where it is declared. */
function declarationsOf(file: string, source: string): Declared[] {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors.map(({ message }) => message).join("; ")}`);
  return program.body.flatMap((statement) => {
    const isExported = statement.type === "ExportNamedDeclaration";
    const declaration = isExported ? statement.declaration : statement;
    return declaration ? declaredNames(declaration).map((name) => ({ name, kind: declaration.type, isExported })) : [];
  });
}

/** The names that a statement declares, except destructured ones. Empty if it declares nothing. */
export function declaredNames(statement: ESTree.Program["body"][number] | null): string[] {
  if (statement === null) return [];
  const ids = statement.type === "VariableDeclaration" ? statement.declarations : [statement];
  return ids.flatMap((one) => ("id" in one && one.id?.type === "Identifier" ? one.id.name : []));
}
