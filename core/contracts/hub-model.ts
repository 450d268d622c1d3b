/**
 * @file A model by its name on the Hugging Face Hub: `hf:<owner>/<name>[@<revision>]`. A revision is a branch, a tag or a commit. A
 * run records a file of such a model as `hf:<owner>/<name>@<commit>/<file>`.
 */

export interface HubModel {
  /** `owner/name`. */
  readonly repository: string;
  readonly revision: string;
}

export const HUB_PREFIX = "hf:";
const HUB_MODEL = /^hf:([\w-][\w.-]*\/[\w-][\w.-]*)(?:@([\w-][\w./-]*))?$/;
const HUB_FILE = /^hf:([\w-][\w.-]*\/[\w-][\w.-]*)@([0-9a-f]{40})\/([^/\\]+)$/;
const COMMIT = /^[0-9a-f]{40}$/;

/** Undefined if the text is not such a name. Without a revision: main. */
export function parseHubModel(text: string): HubModel | undefined {
  const [, repository, revision = "main"] = HUB_MODEL.exec(text) ?? [];
  return repository === undefined || revision.includes("..") ? undefined : { repository, revision };
}

export const hubModelName = ({ repository, revision }: HubModel): string => `${HUB_PREFIX}${repository}@${revision}`;

/** True for a full commit hash, which names the same files forever. */
export const isCommit = (revision: string): boolean => COMMIT.test(revision);

export interface HubModelFile {
  readonly repository: string;
  readonly commit: string;
  /** The name of a file in the repository's root. */
  readonly path: string;
}

export const hubFileName = ({ repository, commit, path }: HubModelFile): string =>
  `${HUB_PREFIX}${repository}@${commit}/${path}`;

/** Undefined if the text is not such a name. */
export function parseHubFile(text: string): HubModelFile | undefined {
  const [, repository, commit, path] = HUB_FILE.exec(text) ?? [];
  return repository && commit && path && path !== "." && path !== ".." ? { repository, commit, path } : undefined;
}
