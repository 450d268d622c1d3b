/** @file Recognizes content blocks with an image, audio or a file, in the forms that APIs and instrumentations write. */
import type { JsonValue } from "./json.ts";

const MEDIA_TYPE = /^(input_)?(image|audio|video|file|document|media)([_-](url|data|id))?$/;

/** The field that has the content, and its type: a tool's own JSON may have a `type` of "file" or "image" too. */
const PAYLOADS: readonly (readonly [string, "string" | "object"])[] = [
  // OpenAI
  ...(["image_url", "input_audio", "file", "audio", "video_url"] as const).map((name) => [name, "object"] as const),
  ...(["image_url", "file_id", "file_data"] as const).map((name) => [name, "string"] as const),
  // Anthropic
  ["source", "object"],
  // The AI SDK and MCP
  ...(["image", "mediaType", "mimeType"] as const).map((name) => [name, "string"] as const),
];

/** Bedrock's blocks have no type: the name of their only field says what they are. */
const BEDROCK = /^(image|document|video|audio)$/;

export function isMedia(block: JsonValue): boolean {
  if (block === null || typeof block !== "object" || Array.isArray(block)) return false;
  const fields = block as Readonly<Record<string, JsonValue>>;
  const { type } = fields;
  if (typeof type === "string" && MEDIA_TYPE.test(type)) {
    return PAYLOADS.some(([name, kind]) => fields[name] && typeof fields[name] === kind);
  }
  const [[name = "", inner = null] = [], ...others] = Object.entries(fields);
  return others.length === 0 && BEDROCK.test(name) && typeof inner === "object" && inner !== null && "source" in inner;
}
