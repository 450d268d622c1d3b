/**
 * @file Escapes special tokens in data: role markers (`<|im_start|>`, `[INST]`) and the protocol's tags (`<tool_call>`, `<answer>`, …). Text
 * that the policy has not just generated (pages, tool responses, tasks, reports) is data. Escaped text stays readable, but no parser,
 * template or tokenizer takes it for the real token. For our own policies the tokenizer is the second line of defense: its `encodeText` has
 * no special tokens at all. Agents, extractors and judges behind APIs have only escaping, so it covers the markers of all common families.
 */
import type { TokenRoom } from "../ports.ts";
import { wholeCharacters } from "../well-formed.ts";
import { toStreamSafe } from "./stream-safe.ts";
import { prefixWithin } from "./token-room.ts";

/**
 * Tags of the protocol and of Qwen's template. Only the opening bracket makes a tag, so replacing it is enough; `TAG_END` is for readers. Each
 * pattern here takes linear time on any text: two runs of whitespace side by side would take quadratic time.
 */
const TAG = /<(?=\s*(?:\/\s*)?(?:tool_call|tool_response|tools|answer|think)\b)/giu;
const TAG_END = /(\[\s*(?:\/\s*)?(?:tool_call|tool_response|tools|answer|think)\s*)>/giu;
/** Role markers of Qwen, Llama 3, Phi, GLM, DeepSeek, gpt-oss and most others start with this. */
const ROLE = /<\|/g;
const ROLE_END = /(\(\|[^|<>()\s]*\|)>/g;
/** EXAONE. Exact, so that `[|x|]` in a formula stays. */
const PIPED = /\[(\|(?:system|user|assistant|tool|endofturn)\|)\]/giu;
/**
 * Llama 2 and Mistral: `<s>`, `<<SYS>>`; Gemma: `<start_of_turn>`, `<turn|>`; GLM: `<sop>`; Cohere: `<BOS_TOKEN>`; Seed: `<seed:bos>`;
 * MiniMax: `<minimax:tool_call>`; Nemotron: `<extra_id_1>`, `<SPECIAL_12>`; Baichuan: `<reserved_106>`; InternLM: `<eoh>`.
 */
const ANGLED =
  /<(<\/?SYS>|\/?(?:s|bos|eos|sop|eop|eoh|eoa|start_of_turn|end_of_turn|end_of_utterance|[A-Z]+_TOKEN|(?:seed|minimax):\w+|(?:extra_id|special|reserved)_\d+)|\/?\w+\|)>/giu;
/** MiniMax: `]~!b[`, `]~b]user`, `[e~[`. */
const TILDED = /\](~!?b)[[\]]|\[(e~)\[/gu;
/** Llama 2, Mistral and GLM. Exact, so that `[1]`, `[img]` and `[a link]` stay. */
const BRACKETED =
  /\[(\/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|MODEL_SETTINGS)|gMASK|sMASK)\]/gu;
/**
 * Characters that models read and people do not see: invisible copies of ASCII (U+E0000 to U+E007F, legitimate only in the flags of England,
 * Scotland and Wales), variation selectors beyond those of emoji, zero-width characters, and overrides of the direction of text. Joiners and
 * direction marks stay: scripts and emoji need them.
 */
const INVISIBLE =
  /(\u{1F3F4}\u{E0067}\u{E0062}(?:\u{E0065}\u{E006E}\u{E0067}|\u{E0073}\u{E0063}\u{E0074}|\u{E0077}\u{E006C}\u{E0073})\u{E007F})|[\u{E0000}-\u{E0FFF}\u200b\u202a-\u202e\u2060-\u206f\ufeff]/gu;

/** Appended to a truncated response. */
export const CUT_MARK = " [cut]";

/**
 * `<|im_start|>` becomes `(|im_start|)`, `</answer>` becomes `[/answer]`, `[INST]` becomes `(INST)`. Idempotent. Removes invisible characters,
 * and every combining mark of a character after its 30th. A tokenizer's normalizer may turn disguised markers (full-width letters, accents,
 * invisible characters) into real ones: if there are any, the whole text is normalized, then escaped.
 */
export function escapeSpecialTokens(text: string): string {
  const escaped = escapeMarkers(toStreamSafe(text.replace(INVISIBLE, "$1")));
  if (/^[\x20-\x7e\n\t\r]*$/.test(escaped)) return escaped;
  const normalized = normalize(escaped);
  const escapedAgain = escapeMarkers(normalized);
  return escapedAgain === normalized ? escaped : escapedAgain;
}

/** A tool response as the model sees it: escaped, cut to `characters` UTF-16 code units and to `room` tokens, with a mark if it was cut. */
export function presentResponse(text: string, characters: number, room?: TokenRoom): string {
  const whole = escapeSpecialTokens(cut(text, characters));
  const short = cut(whole, characters);
  const kept = room ? prefixWithin(short, room) : short;
  const isCut = text.length > characters || kept.length < whole.length;
  return isCut ? kept + CUT_MARK : kept;
}

function escapeMarkers(text: string): string {
  const untagged = text.replace(TAG, "[").replace(TAG_END, "$1]").replace(ROLE, "(|");
  // ROLE_END comes after ANGLED: `<|<s>|>` has become `(|[s]|>`. BRACKETED comes after the tags: `<THINK>` has become `[THINK]`.
  return untagged
    .replace(ANGLED, withSquareBrackets)
    .replace(ROLE_END, "$1)")
    .replace(BRACKETED, "($1)")
    .replace(PIPED, "($1)")
    .replace(TILDED, "($1$2)");
}

/** `<s>` becomes `[s]`, `<<SYS>>` becomes `[[SYS]]`. */
const withSquareBrackets = (marker: string): string => marker.replaceAll("<", "[").replaceAll(">", "]");

/** Decomposes compatibility forms, and removes accents and invisible characters: the most that a tokenizer's normalizer does. */
function normalize(text: string): string {
  return text.normalize("NFKD").replace(/(?![\n\t\r])[\p{M}\p{Cf}\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, "");
}

/** The longest prefix of at most `characters` UTF-16 code units that does not split a surrogate pair. */
const cut = (text: string, characters: number): string =>
  text.length <= characters ? text : wholeCharacters(text.slice(0, characters));
