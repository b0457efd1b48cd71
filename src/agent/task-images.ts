import type { ChatMessage } from "../model/model.ts";

// Images stand in the task's message by the hash of what is stored of them, as the system prompt does: log, window and
// summaries stay small. Only what is sent, and what is exported as messages, holds them whole.

const scheme = "blob:";

/** How a stored image stands in the log. */
export function imageReference(hash: string): string {
  return `${scheme}${hash}`;
}

/** The message with images behind its text; `urls` are references or the addresses of images elsewhere. */
export function addImages(message: ChatMessage, urls: string[]): ChatMessage {
  if (urls.length === 0 || typeof message.content !== "string") return message;
  const images = urls.map((url) => ({ type: "image_url" as const, image_url: { url } }));
  return { role: "user", content: [{ type: "text", text: message.content }, ...images] };
}

/** The messages as they are sent: references become the images, which are data URLs by hash. */
export function fillImages(messages: ChatMessage[], images: ReadonlyMap<string, string>): ChatMessage[] {
  return messages.map((message) => {
    if (message.role !== "user" || typeof message.content === "string") return message;
    const content = message.content.map((part) => {
      if (part.type !== "image_url" || !part.image_url.url.startsWith(scheme)) return part;
      const url = images.get(part.image_url.url.slice(scheme.length)) ?? part.image_url.url;
      return { ...part, image_url: { ...part.image_url, url } };
    });
    return { ...message, content };
  });
}

/** What people and summaries are shown of a content: its texts, and a word for each image. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content ? JSON.stringify(content) : "";
  return content.map(textOfPart).join("\n");
}

function textOfPart(part: { type?: unknown; text?: unknown; image_url?: { url?: unknown } }): string {
  if (part?.type === "text" && typeof part.text === "string") return part.text;
  if (part?.type !== "image_url") return JSON.stringify(part);
  const url = String(part.image_url?.url);
  return url.startsWith("http") ? `[image: ${url}]` : "[image]";
}
