/** @file Type declarations for libraries that ship none, limited to what this folder uses. */
declare module "@joplin/turndown-plugin-gfm" {
  import type TurndownService from "turndown";
  export const highlightedCodeBlock: TurndownService.Plugin;
  export const strikethrough: TurndownService.Plugin;
  export const taskListItems: TurndownService.Plugin;
}
declare module "html-encoding-sniffer" {
  /** The name of a document's encoding, per the HTML standard: byte order mark, transport layer, `<meta>`, default. */
  // biome-ignore lint/style/noDefaultExport: it is what the package exports
  export default function sniff(
    bytes: Uint8Array,
    options?: { xml?: boolean; transportLayerEncodingLabel?: string; defaultEncoding?: string },
  ): string;
}
