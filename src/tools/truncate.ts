/**
 * Cuts a text to `maxChars`, keeping its head and its tail; a mark between them says how much is gone and, by `hint`, where
 * it can be read. Never parts a surrogate pair.
 */
export function truncate(text: string, options: { maxChars: number; hint: string }): string {
  const { maxChars, hint } = options;
  if (text.length <= maxChars) return text;
  // The real mark is never longer than that of the whole text.
  const room = maxChars - markOf(text, hint).length;
  if (room <= 0) return text.slice(0, safeCut(text, maxChars));
  const headEnd = safeCut(text, Math.ceil(room / 2));
  const tailStart = safeCut(text, text.length - Math.floor(room / 2), 1);
  return text.slice(0, headEnd) + markOf(text.slice(headEnd, tailStart), hint) + text.slice(tailStart);
}

/** The nearest place at or before `index` (after it, with `direction` 1) that does not part a surrogate pair. */
export function safeCut(text: string, index: number, direction: -1 | 1 = -1): number {
  const unit = text.charCodeAt(index);
  const isInPair = index > 0 && unit >= 0xdc00 && unit <= 0xdfff;
  return isInPair ? index + direction : index;
}

function markOf(omitted: string, hint: string): string {
  const lines = omitted.split("\n").length - 1;
  return `\n[… ${omitted.length} characters, ${lines} lines left out; ${hint}]\n`;
}
