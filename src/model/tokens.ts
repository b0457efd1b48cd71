import type { ChatMessage } from "./model.ts";

/** Longer texts are sampled: the cost of an estimate is bounded however long the text is. */
const maxScannedChars = 65_536;
const samples = 16;
/** An image, whatever its size: what services count for one is about this, or less. */
const imageTokens = 1_500;
/** Role, separators and the like, a message. */
export const messageOverheadTokens = 4;

/**
 * About how many tokens a text has, without any model's tokenizer. Meant to be too high rather than too low: a window
 * that is cut a little early costs less than a request that is refused.
 */
export function estimateTokens(text: string): number {
  if (text.length <= maxScannedChars) return Math.ceil(weigh(text, 0, text.length));
  const sampleChars = maxScannedChars / samples;
  const stride = (text.length - sampleChars) / (samples - 1);
  let weight = 0;
  for (let sample = 0; sample < samples; sample += 1) {
    const start = Math.floor(sample * stride);
    weight += weigh(text, start, start + sampleChars);
  }
  return Math.ceil((weight / maxScannedChars) * text.length);
}

/** About how many tokens a message takes in a request, its calls, reasoning and images included. */
export function estimateMessageTokens(message: ChatMessage): number {
  let images = 0;
  const text = JSON.stringify(message, (name, value: unknown) => {
    if (name !== "image_url") return value;
    images += 1;
    return null;
  });
  return messageOverheadTokens + estimateTokens(text) + images * imageTokens;
}

function weigh(text: string, start: number, end: number): number {
  let weight = 0;
  for (let index = start; index < end; index += 1) {
    const code = text.charCodeAt(index);
    weight += code < 128 ? (asciiWeights[code] ?? 0) : wideWeight(code);
  }
  return weight;
}

/** Letters and blanks four to a token, digits three, punctuation two. */
const asciiWeights = Float64Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[a-z\s]/i.test(character)) return 1 / 4;
  return /\d/.test(character) ? 1 / 3 : 1 / 2;
});

/** Alphabets beyond ASCII two to a token; Chinese, Japanese, Korean and each half of an emoji one. */
function wideWeight(code: number): number {
  return code < 0x2e80 ? 1 / 2 : 1;
}
