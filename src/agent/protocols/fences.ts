// Where text is quoted: fenced blocks and thoughts. The text protocols read nothing in there as their own.

/** A fenced block, or a thought, from its first character to behind its last. */
export interface Fence {
  start: number;
  end: number;
  /** The characters that opened it. */
  mark: string;
  /** The first word behind the opening fence, in lower case. */
  label: string;
  body: string;
  /** Whether it ends before the text does. */
  isClosed: boolean;
}

/** Finds what opens a fenced block (groups: indentation, mark, info) or a thought. Part of larger patterns, with flags `gi`. */
export const openingPattern = "(?<![^\\n])([ \\t]*)(`{3,}|~{3,})([^`\\n]*)(?=\\n|$)|<think(?:ing)?>";

/**
 * The block that a match of `openingPattern` opens. It ends at a fence of its kind, at least as long and alone on its line:
 * whoever needs such a line in it takes a longer fence.
 */
export function readFence(text: string, opened: RegExpExecArray): Fence {
  const [whole, indentation = "", mark = "", info = ""] = opened;
  const start = opened.index;
  if (mark === "") return readThought(text, start, whole);
  const bodyStart = start + whole.length + 1;
  const closing = closingFence(mark);
  closing.lastIndex = bodyStart;
  const closed = closing.exec(text);
  const bodyEnd = closed ? Math.max(bodyStart, closed.index - 1) : text.length;
  const body = text.slice(bodyStart, bodyEnd);
  return {
    start,
    end: closed ? closed.index + closed[0].length : text.length,
    mark,
    label: info.trim().split(/\s/)[0]?.toLowerCase() ?? "",
    body: cleanLines(body, { indentation, hasReturns: info.endsWith("\r") }),
    isClosed: closed !== null,
  };
}

/** Whether a line from `index` on begins with a fence that could have ended the block: then nobody knows where it ends. */
export function hasFenceAfter(text: string, { mark, end }: Pick<Fence, "mark" | "end">): boolean {
  return new RegExp(`(?<![^\\n])[ \\t]*${mark[0]}{${mark.length},}`).test(text.slice(end));
}

/** Whether the place is inside of code within a line: talk about markup, not markup. */
export function isQuoted(text: string, index: number): boolean {
  const line = text.slice(text.lastIndexOf("\n", index - 1) + 1, index);
  return line.split("`").length % 2 === 0;
}

function readThought(text: string, start: number, opening: string): Fence {
  const closing = new RegExp(opening.replace("<", "</"), "gi");
  closing.lastIndex = start;
  const closed = closing.exec(text);
  const end = closed ? closing.lastIndex : text.length;
  return { start, end, mark: "", label: "", body: "", isClosed: closed !== null };
}

function closingFence(mark: string): RegExp {
  return new RegExp(`(?<![^\\n])[ \\t]*${mark[0]}{${mark.length},}[ \\t]*\\r?(?=\\n|$)`, "g");
}

/** As deep as its fence stands, a block in a list is indented; and some replies have carriage returns throughout. */
function cleanLines(body: string, { indentation, hasReturns }: { indentation: string; hasReturns: boolean }) {
  const text = hasReturns ? body.replace(/\r(?=\n|$)/g, "") : body;
  if (indentation === "") return text;
  return text.replace(new RegExp(`(?<![^\\n])[ \\t]{1,${indentation.length}}`, "g"), "");
}
