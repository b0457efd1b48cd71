/** Context window of a model nobody here knows, in tokens. */
const defaultContextWindow = 128_000;

/** The context window of a model, in tokens, guessed from its name; `vendor/model` and `model:tag` are understood. */
export function contextWindowOf(model: string): number {
  const name = model.toLowerCase().split("/").at(-1) ?? "";
  return windows.find(([pattern]) => pattern.test(name))?.[1] ?? defaultContextWindow;
}

/** First match wins, so the narrower name stands above the wider one. Where versions differ the smaller number is taken. */
const windows: [RegExp, number][] = [
  [/^gpt-4\.1/, 1_047_576],
  [/^gpt-5.*chat/, 128_000],
  [/^gpt-5/, 400_000],
  [/^gpt-oss/, 131_072],
  [/^gpt-4-32k/, 32_768],
  [/^gpt-4(-\d{4})?$/, 8_192],
  [/^gpt-3\.5/, 16_385],
  [/^o1-(mini|preview)/, 128_000],
  [/^o[134](-|$)/, 200_000],
  [/^claude/, 200_000],
  [/^gemini-(1\.5|2|3)/, 1_048_576],
  [/^qwen3-coder-(plus|flash)/, 1_000_000],
  [/^qwen3-(max|coder)/, 262_144],
  [/^qwen-max/, 32_768],
  [/^qwen2\.5/, 32_768],
  [/^glm-4\.[67]|^glm-[5-9]/, 200_000],
  [/^kimi-k2/, 131_072],
  [/^doubao-seed/, 256_000],
  [/^codestral|^devstral/, 128_000],
  [/^mistral-(7b|tiny)|^mixtral-8x7b/, 32_768],
  [/^llama-?3(:|-\d+b|$)/, 8_192],
  [/^grok-4/, 256_000],
];
