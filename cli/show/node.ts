/** @file A node of the trees that `show` draws. Pure data, drawn by text.ts and page.ts. */
export interface Tree {
  readonly title: string;
  /** Short facts next to the title. */
  readonly tags: readonly Tag[];
  /** The recipe's note for the reader. */
  readonly note?: string | undefined;
  /** Longer text: a prompt, an output or a tool response. */
  readonly body?: string;
  /** Whether the page shows it folded. */
  readonly folded?: boolean;
  /** Whether the page shows its children in columns. */
  readonly sideBySide?: boolean;
  readonly children: readonly Tree[];
}

export interface Tag {
  readonly text: string;
  readonly tone: "good" | "bad" | "plain" | "faint";
}

export function plain(text: string): Tag {
  return { text, tone: "plain" };
}
