/** Of a thought or an output, in a progress line. */
const previewChars = 200;

/** The beginning of a text, for a progress line. */
export function preview(text: string | null): string | null {
  return text === null || text.length <= previewChars
    ? text
    : `${text.slice(0, previewChars).toWellFormed()}…`;
}
