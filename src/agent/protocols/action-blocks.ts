import { type Fence, hasFenceAfter, isQuoted, openingPattern, readFence } from "./fences.ts";

/** A command as a reply holds it, with its place in the text. */
export interface ActionBlock {
  start: number;
  end: number;
  command: string;
  isClosed: boolean;
  /** Something behind it could be its true end: half a command must not be run. */
  isAmbiguous: boolean;
}

/**
 * The commands in a reply, as fenced blocks and as elements, in order; `labels` are those of its other blocks. What stands in
 * another block, in a thought or as code within a line is talk about commands, not a command.
 */
export function findActions(text: string): { actions: ActionBlock[]; labels: string[] } {
  const actions: ActionBlock[] = [];
  const labels: string[] = [];
  const opening = new RegExp(`${openingPattern}|<bash[-_]action(?:\\s[^<>]*)?>`, "gi");
  // Ends: each round begins behind the block of the one before.
  for (let opened = opening.exec(text); opened; opened = opening.exec(text)) {
    const isFence = opened[2] !== undefined;
    if (!isFence && isQuoted(text, opened.index)) continue;
    const isElement = /^<bash/i.test(opened[0]);
    const block = isElement ? readElement(text, opened) : readFence(text, opened);
    if ("command" in block) actions.push(block);
    else if (isAction(block.label)) actions.push(fencedAction(text, block));
    else labels.push(block.label);
    opening.lastIndex = block.end;
  }
  return { actions, labels };
}

function isAction(label: string): boolean {
  return /^bash[-_]action$/.test(label);
}

function fencedAction(text: string, fence: Fence): ActionBlock {
  const { start, end, body, isClosed } = fence;
  return { start, end, isClosed, command: unwrap(body), isAmbiguous: hasFenceAfter(text, fence) };
}

/** From the opening tag to the first closing one. The text between is taken as it is: `&lt;` stays. */
function readElement(text: string, opened: RegExpExecArray): ActionBlock {
  const bodyStart = opened.index + opened[0].length;
  const closing = /<\/bash[-_]action\s*>/gi;
  closing.lastIndex = bodyStart;
  const closed = closing.exec(text);
  const end = closed ? closing.lastIndex : text.length;
  return {
    start: opened.index,
    end,
    command: unwrap(withoutOuterLines(text.slice(bodyStart, closed?.index ?? end))),
    isClosed: closed !== null,
    isAmbiguous: /<\/?bash[-_]action/i.test(text.slice(end)),
  };
}

/** Some models put one form into the other. */
function unwrap(body: string): string {
  const element = /^\s*<bash[-_]action(?:\s[^<>]*)?>([\s\S]*)<\/bash[-_]action\s*>\s*$/i.exec(body);
  if (element) return withoutOuterLines(element[1] ?? "");
  const opened = new RegExp(`^(?:${openingPattern})`, "i").exec(body);
  if (opened?.[2] === undefined) return body;
  const fence = readFence(body, opened);
  return fence.isClosed && body.slice(fence.end).trim() === "" ? fence.body : body;
}

function withoutOuterLines(body: string): string {
  return body.replace(/^(?:[ \t]*\r?\n)+/, "").trimEnd();
}
