/**
 * @file The system messages. They describe the tools in a few words: the chat template shows no tools, and JSON Schemas would take up half of
 * every context. Demonstrations teach the rest.
 */

const callLike = (call: string): string => `Call one tool at a time, like this:
<tool_call>
${call}
</tool_call>
Then give the answer alone, like this: <answer>...</answer>`;

const DELEGATE = '{"name": "delegate", "arguments": {"agent": "searcher", "task": "..."}}';
const SEARCH = '{"name": "search", "arguments": {"query": "..."}}';

export const PLANNER_SYSTEM = `Answer the question. Tools: delegate(agent, task) has the searcher look one thing up; calculate(expression).
${callLike(DELEGATE)}`;

export const SEARCHER_SYSTEM = `Find what is asked. Tools: search(query) gives titles; visit(title) opens a page.
${callLike(SEARCH)}`;

export const SINGLE_SYSTEM = `Answer the question. Tools: search(query) gives titles; visit(title) opens a page; calculate(expression).
${callLike(SEARCH)}`;
