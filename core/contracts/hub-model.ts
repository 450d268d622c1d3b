/** @file A model by its name on the Hugging Face Hub: `hf:<owner>/<name>[@<revision>]`. A revision is a branch, a tag or a commit. */

export interface HubModel {
  /** `owner/name`. */
  readonly repository: string;
  readonly revision: string;
}

export const HUB_PREFIX = "hf:";
const HUB_MODEL = /^hf:([\w-][\w.-]*\/[\w-][\w.-]*)(?:@([\w-][\w./-]*))?$/;
const COMMIT = /^[0-9a-f]{40}$/;

/** Undefined if the text is not such a name. Without a revision: main. */
export function parseHubModel(text: string): HubModel | undefined {
  const [, repository, revision = "main"] = HUB_MODEL.exec(text) ?? [];
  return repository === undefined || revision.includes("..") ? undefined : { repository, revision };
}

export const hubModelName = ({ repository, revision }: HubModel): string => `${HUB_PREFIX}${repository}@${revision}`;

/** True for a full commit hash, which names the same files forever. */
export const isCommit = (revision: string): boolean => COMMIT.test(revision);
