/** @file Finds functions that are too long, with Rolldown's parser. */
import { type ESTree, parseSync, Visitor } from "rolldown/utils";

type FunctionNode = ESTree.Function | ESTree.ArrowFunctionExpression;

/**
 * One line for each function of more than `maxLines` lines; nested functions, JSX and comments count. The callback of `describe` is exempt:
 * it only lists tests.
 */
export function longFunctions(file: string, source: string, maxLines: number): string[] {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors.map(({ message }) => message).join("; ")}`);
  const textOf = ({ start, end }: ESTree.Span) => source.slice(start, end);
  const found: string[] = [];
  const exempt = new Set<ESTree.Span>();
  const check = (node: FunctionNode) => {
    const lines = textOf(node).split("\n").length;
    if (lines <= maxLines || exempt.has(node)) return;
    found.push(`${file}:${source.slice(0, node.start).split("\n").length} has ${lines} lines`);
  };
  new Visitor({
    CallExpression({ callee, arguments: values }) {
      if (/^describe\b/.test(textOf(callee))) for (const value of values) exempt.add(value);
    },
    FunctionDeclaration: check,
    FunctionExpression: check,
    ArrowFunctionExpression: check,
  }).visit(program);
  return found;
}
