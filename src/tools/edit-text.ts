import { RecoverableError } from "../errors.ts";

export interface Edit {
  oldText: string;
  newText: string;
  replaceAll: boolean;
}

/** How many lines of the file an error shows. */
const maxShownLines = 20;

/** The edited text. Throws RecoverableError where the edit is not certain, with what would make it so. */
export function applyEdit(text: string, edit: Edit): { text: string; count: number; line: number } {
  if (edit.oldText === "")
    throw new RecoverableError("oldText: expected the text to replace, got an empty string");
  if (edit.oldText === edit.newText)
    throw new RecoverableError("oldText and newText are equal: nothing to change");
  const { oldText, newText } = withLineEndingsOf(text, edit);
  const places = findAll(text, oldText);
  const [first] = places;
  if (first === undefined)
    throw new RecoverableError(`oldText does not occur in the file. ${nearMiss(text, oldText)}`);
  if (places.length > 1 && !edit.replaceAll) {
    const lines = places.slice(0, maxShownLines).map((place) => lineAt(text, place));
    throw new RecoverableError(
      `oldText occurs ${places.length} times, at lines ${lines.join(", ")}: give more of the text around the one you mean, ` +
        "or set replaceAll. The file is unchanged",
    );
  }
  // Not String.replace, which expands $& and its kin in the new text.
  const parts = text.split(oldText);
  return { text: parts.join(newText), count: parts.length - 1, line: lineAt(text, first) };
}

/** Models write \n; in a file of CRLF lines both texts are meant with its line ends. */
function withLineEndingsOf(text: string, edit: Edit): Edit {
  const isCrlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
  if (!isCrlf) return edit;
  const convert = (part: string) => part.replace(/\r?\n/g, "\r\n");
  return { ...edit, oldText: convert(edit.oldText), newText: convert(edit.newText) };
}

/** Overlapping places count too: which of them is meant is just as unclear. */
function findAll(text: string, part: string): number[] {
  const places: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) places.push(at);
  return places;
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

function nearMiss(text: string, oldText: string): string {
  const lines = text.split("\n");
  const wanted = oldText.replace(/\n$/, "").split("\n").map(squeeze);
  const start = lines.findIndex((_line, at) =>
    wanted.every((line, offset) => squeeze(lines[at + offset]) === line),
  );
  if (start !== -1) {
    const found = lines.slice(start, start + Math.min(wanted.length, maxShownLines)).join("\n");
    return `It occurs at line ${start + 1} with other whitespace; the file has:\n${found}`;
  }
  if (wanted.every((line) => /^\d+\s*[|:\t]/.test(line) || line === "")) return "Leave the line numbers out";
  if (oldText.includes("\\n") && text.includes(oldText.replaceAll("\\n", "\n"))) {
    return "It has a backslash and an n where the file has a line break";
  }
  const firstLine = wanted.find((line) => line !== "");
  const similar = lines.flatMap((line, at) =>
    firstLine !== undefined && squeeze(line) === firstLine ? [at + 1] : [],
  );
  if (similar.length === 0) return "Read the file again, it may have changed";
  return `Its first line is at line ${similar.slice(0, maxShownLines).join(", ")}, but what follows differs: read the file there`;
}

function squeeze(line: string | undefined): string {
  return (line ?? "\0").trim().replace(/\s+/g, " ");
}
