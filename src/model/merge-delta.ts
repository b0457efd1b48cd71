import { isObject } from "./json.ts";

// A reply that came in pieces is put together as the same reply would have come in one: known or not, every member is kept.

type Members = Record<string, unknown>;

/** Members that are texts in pieces, even where two pieces in a row are the same. */
const texts = new Set([
  "content",
  "reasoning_content",
  "reasoning",
  "refusal",
  "arguments",
  "text",
  "thinking",
]);
/** Members that name a thing: pieces repeat them. */
const labels = new Set(["id", "type", "role", "format", "object", "model"]);
/** Lists whose neighbours of one of these types are pieces of one part. */
const partTypes = new Set(["text", "thinking"]);

/** Adds a delta to the message as far as it came. */
export function mergeDelta(message: Members, delta: Members): void {
  for (const [name, value] of Object.entries(delta)) {
    // It would be the prototype that is changed.
    if (name === "__proto__") continue;
    const before = Object.hasOwn(message, name) ? message[name] : undefined;
    message[name] = mergeValue(name, before, value);
  }
}

function mergeValue(name: string, before: unknown, value: unknown): unknown {
  if (value === null || value === undefined) return before ?? null;
  if (Array.isArray(value)) {
    const list = listOf(before);
    for (const item of value) addItem(name, list, item);
    return list;
  }
  if (before === null || before === undefined) return value;
  if (Array.isArray(before) && typeof value === "string") {
    addItem(name, before, { type: "text", text: value });
    return before;
  }
  if (typeof before === "string" && typeof value === "string") return mergeText(name, before, value);
  if (isObject(before) && isObject(value)) {
    mergeDelta(before, value);
    return before;
  }
  return value;
}

/** What came so far as a list: text that came before parts is a part. */
function listOf(before: unknown): unknown[] {
  if (Array.isArray(before)) return before;
  return typeof before === "string" && before !== "" ? [{ type: "text", text: before }] : [];
}

function mergeText(name: string, before: string, value: string): string {
  if (texts.has(name)) return before + value;
  if (value === "" || value === before) return before;
  return labels.has(name) ? value : before + value;
}

function addItem(name: string, list: unknown[], item: unknown): void {
  const target = isObject(item) ? findTarget(name, list, item) : undefined;
  if (target && isObject(item)) mergeDelta(target, item);
  else list.push(isObject(item) ? mergedCopy(item) : item);
}

/** Also the first piece may hold lists of pieces. */
function mergedCopy(item: Members): Members {
  const copy: Members = {};
  mergeDelta(copy, item);
  return copy;
}

function findTarget(name: string, list: unknown[], item: Members): Members | undefined {
  if (name === "tool_calls") return findCall(list, item);
  const last = list.at(-1);
  if (typeof item.index === "number") {
    return list
      .filter(isObject)
      .findLast((each) => each.index === item.index && isSameOrUnsaid(each.type, item.type));
  }
  const isPart = partTypes.has(String(item.type)) && isObject(last) && last.type === item.type;
  return isPart ? last : undefined;
}

function isSameOrUnsaid(one: unknown, other: unknown): boolean {
  return one === other || one === undefined || other === undefined;
}

/**
 * The call that a piece goes on with. Servers number calls, or leave the number out, or give every call the number 0: so
 * another id begins another call, and a name does where the call before it is whole.
 */
function findCall(list: unknown[], piece: Members): Members | undefined {
  const calls = list.filter(isObject);
  const sameIndex = calls.findLast((call) => call.index === piece.index);
  const isNumbered = typeof piece.index === "number";
  const target = isNumbered ? sameIndex : (calls.findLast((call) => hasId(call, piece.id)) ?? calls.at(-1));
  if (target === undefined) return undefined;
  const isOther =
    typeof piece.id === "string" && piece.id !== "" && !hasId(target, piece.id) && hasId(target);
  const name = functionOf(piece).name;
  const isNext = typeof name === "string" && name !== "" && isWhole(functionOf(target).arguments);
  return isOther || isNext ? undefined : target;
}

function hasId(call: Members, id: unknown = call.id): boolean {
  return typeof call.id === "string" && call.id !== "" && call.id === id;
}

function functionOf(call: Members): Members {
  return isObject(call.function) ? call.function : {};
}

/** Whether these arguments need no further piece. */
function isWhole(text: unknown): boolean {
  if (typeof text !== "string" || !text.trimEnd().endsWith("}")) return false;
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}
