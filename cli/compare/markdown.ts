/** @file summary.md: the results of a comparison, with an explanation of its numbers. Pure. */
import type { Measured } from "../../ui/compare-view.ts";
import { counted, duration } from "../terminal/columns.ts";
import type { ArmResult, Comparison } from "./summary.ts";

/** `charts`: title and file of each, in order. */
export function drawMarkdown(
  comparison: Comparison,
  charts: readonly (readonly [title: string, file: string])[],
): string {
  const { name, foreign, seeds, arms, missing } = comparison;
  const baseline = `compared with ${arms[0]?.label ?? "the first arm"}`;
  // With --tokens, other arms can finish although the baseline failed.
  const first = arms.find(({ runs }) => runs.length > 0);
  const suites = first?.heldOut ?? [];
  return [
    `# ${name}: ${counted(arms.length, "arm")}, ${counted(seeds.length, "seed")}`,
    provenanceTable(comparison),
    ...(missing.length > 0
      ? [`**Unfinished, and left out: ${missing.join(", ")}.** Run the same command to resume.`]
      : []),
    ...mismatchedRuns(foreign),
    ...charts.map(([title, file]) => `![${title}](${file})`),
    "## Questions answered correctly, in percent",
    ...suites.map((suite) => section(nameOf(suite), arms, (arm) => ofSuite(arm.heldOut, suite), baseline)),
    "## Cost",
    table(
      ["arm", "seeds", "steps", "sampled tokens", "time"],
      arms.map((arm) => [
        arm.label,
        list(arm, ({ seed }) => String(seed)),
        list(arm, ({ steps }) => String(steps)),
        list(arm, ({ sampledTokens, short }) => `${thousands(sampledTokens)}${short ? " (short)" : ""}`),
        list(arm, ({ seconds }) => duration(seconds)),
      ]),
    ),
    ...(first && first.caseStudies.length > 0 ? ["## Case studies", ...caseStudies(arms, first, baseline)] : []),
    ...(first ? byKind(arms, first) : []),
    "## Every run",
    table(
      ["run", ...suites.flatMap((suite) => [`${nameOf(suite)}: before`, "after"])],
      arms.flatMap(({ runs }) =>
        runs.map(({ run, evaluations }) => [
          run,
          ...suites.flatMap((suite) => {
            const { before, after } = ofSuite(evaluations, suite) ?? {};
            return [runShare(before), runShare(after)];
          }),
        ]),
      ),
    ),
    "## How to read this",
    EXPLANATION,
  ]
    .join("\n\n")
    .concat("\n");
}

/** What the numbers come from. */
function provenanceTable({ recipe, command, start, questions, commits, machines, hours }: Comparison): string {
  return table(
    ["", ""],
    [
      ["command", `\`${command}\``],
      ["recipe", recipe],
      ["starts from", start],
      ["training questions", questions],
      ["commit", commits.join(", ")],
      ["machine", machines.join("; ")],
      ["time", `${duration(3600 * hours)}, summed over all runs`],
    ],
  );
}

/** The runs from another commit, release, recipe, question set, config or base model, if any. */
function mismatchedRuns(foreign: Comparison["foreign"]): string[] {
  if (foreign.length === 0) return [];
  return [
    `**${counted(foreign.length, "run")} from another commit, release, recipe, question set, config or base model**, accepted with \`--mixed\`: a difference between arms may be due to that.`,
    table(
      ["run", "commit", "differences from this comparison"],
      foreign.map((one) => [one.run, one.commit, one.differences.join("; ")]),
    ),
  ];
}

const EXPLANATION = `- With the same seed, every arm samples as many tokens in training as the first one, frozen agents included, and ends once it
  has reached that number. "short": it reached its maximum number of steps first.
- The learning rate, the stages of the curriculum and the evaluations during training follow each run's share of those tokens or of
  its steps, whichever is larger; the first arm's, unless \`--tokens\` is given, its share of its steps. So no arm asks harder
  questions or is evaluated earlier because it takes more steps.
- Brackets are 95% intervals. For arms they come from a bootstrap over seeds and questions, paired by question where two things are
  compared (\`core/training/bootstrap.ts\`): a question for which one of the two has no counted answer is left out of their difference.
  From one seed they say nothing about other seeds. For a run they are Wilson intervals over its questions; n is the number of its
  answers, without those that were lost.
- Where all resamples are equal, as for an arm whose answers are all correct or all wrong, they show no spread. A share then has a
  Wilson interval over its questions, as a run has, and a difference extends to both sides by Wilson's upper bound for a share of 0.
- A difference is significant if its interval does not contain 0. Of many differences that are really 0, about one in
  twenty is significant by chance. One that is not significant need not be 0: \`mgrpo bench power\` says how large a difference would be found.
- \`shuffled-advantages\` is the control: its advantages are shuffled at random, so its gain should not be significantly above 0. It may be far
  below 0: random updates destroy what the base models can do.
- Every step of every run is in \`steps.csv\`, every evaluation in \`evaluations.csv\`, every question before and after in \`questions.csv\`.`;

function section(
  title: string,
  arms: readonly ArmResult[],
  of: (arm: ArmResult) => Measured | undefined,
  baseline: string,
): string {
  const rows = arms.map((arm) => {
    const measured = of(arm);
    return [
      arm.label,
      share(measured?.before),
      share(measured?.after),
      difference(measured?.gain),
      difference(measured?.againstFirst),
    ];
  });
  return `### ${title}\n\n${table(["arm", "before", "after", "gain", baseline], rows)}`;
}

function caseStudies(arms: readonly ArmResult[], first: ArmResult, baseline: string): string[] {
  return first.caseStudies.map(({ study, expected, suite, temperature }) => {
    const of = (arm: ArmResult) => arm.caseStudies.find((one) => one.study === study && one.suite === suite);
    return section(`${study}: ${expected}; ${nameOf({ suite, temperature })}`, arms, of, baseline);
  });
}

function byKind(arms: readonly ArmResult[], first: ArmResult): string[] {
  const [shown] = first.kinds;
  if (!shown) return [];
  const rows = table(
    ["arm", ...first.kinds.map(({ kind }) => kind)],
    arms.map((arm) => [
      arm.label,
      ...first.kinds.map(({ kind, suite }) => {
        const measured = arm.kinds.find((one) => one.kind === kind && one.suite === suite);
        return share(measured?.after);
      }),
    ]),
  );
  return [`## By kind of question, after training: ${nameOf(shown)}, in percent`, rows];
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  // A varied setting may have several lines.
  const inCell = (text: string) => text.replaceAll("|", "\\|").replace(/\s*[\r\n]\s*/g, " ");
  const line = (cells: readonly string[]) => `| ${cells.map(inCell).join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join("\n");
}

const nameOf = ({ suite, temperature }: Pick<Measured, "suite" | "temperature">) =>
  `${suite} (temperature ${temperature})`;

/** Finds a suite by its name, not its position: each arm sorts its suites by its own temperatures. */
const ofSuite = <T extends { readonly suite: string }>(all: readonly T[], { suite }: Pick<Measured, "suite">) =>
  all.find((one) => one.suite === suite);

const list = ({ runs }: ArmResult, of: (run: ArmResult["runs"][number]) => string) => runs.map(of).join(", ");
const thousands = (tokens: number) => `${(tokens / 1000).toFixed(1)}k`;
const points = (value: number) => (100 * value).toFixed(1);
const signed = (value: number) => `${value > 0 ? "+" : ""}${points(value)}`;

function share(estimate: Measured["after"] | undefined): string {
  return estimate ? `${points(estimate.value)} [${points(estimate.low)}, ${points(estimate.high)}]` : "-";
}

function difference(estimate: Measured["gain"] | undefined): string {
  return estimate ? `${signed(estimate.value)} [${signed(estimate.low)}, ${signed(estimate.high)}]` : "-";
}

function runShare(measured: ArmResult["runs"][number]["evaluations"][number]["before"] | undefined): string {
  const { n, correct, interval } = measured ?? { n: 0, correct: 0, interval: { low: 0, high: 0 } };
  return n === 0 ? "-" : `${points(correct / n)} [${points(interval.low)}, ${points(interval.high)}], n = ${n}`;
}
