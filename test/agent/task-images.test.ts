import { expect, it } from "vitest";
import { compact } from "../../src/agent/compact.ts";
import { openRunLog } from "../../src/agent/run-log.ts";
import { addImages, fillImages, imageReference, textOf } from "../../src/agent/task-images.ts";
import { think } from "../../src/agent/think.ts";
import type { ChatMessage } from "../../src/model/model.ts";
import { say, scriptedModel } from "../../src/model/scripted.ts";
import { estimateMessageTokens } from "../../src/model/tokens.ts";
import { claimOf, identity, newTask } from "../db/suite/scene.ts";
import { prompt, protocol, turnOf } from "./fixture.ts";
import { agentOf, openTestStore, take } from "./owner.ts";

const text: ChatMessage = { role: "user", content: "What is on it?" };
const dataUrl = `data:image/png;base64,${"iVBOR".repeat(200_000)}`;
const url = "https://a.example/b.png";
const image = (address: string) => ({ type: "image_url", image_url: { url: address } });
const withImages = addImages(text, [imageReference("abc"), url]);

it("images stand behind the text by reference, and a task without any stays as it is", () => {
  const parts = [{ type: "text", text: "What is on it?" }, image("blob:abc"), image(url)];
  expect(withImages).toEqual({ role: "user", content: parts });
  expect(addImages(text, [])).toBe(text);
});

it("only what is stored is filled in, and only in messages of the user", () => {
  const reply: ChatMessage = { role: "assistant", content: "blob:abc" };
  const [sent, ...others] = fillImages([withImages, text, reply], new Map([["abc", dataUrl]]));
  expect(sent?.content).toEqual([{ type: "text", text: "What is on it?" }, image(dataUrl), image(url)]);
  expect(others).toEqual([text, reply]);
});

it("people and summaries are shown the text and a word for each image", () => {
  expect(textOf(withImages.content)).toBe(`What is on it?\n[image]\n[image: ${url}]`);
  expect(textOf("plain")).toBe("plain");
  expect(textOf([{ type: "odd", x: 1 }, null])).toBe('{"type":"odd","x":1}\nnull');
  expect(textOf(undefined)).toBe("");
});

it("an image counts the same few tokens however large it is", () => {
  const small = estimateMessageTokens(withImages);
  expect(small).toBeGreaterThan(3_000);
  expect(small).toBeLessThan(3_100);
  expect(estimateMessageTokens(addImages(text, [dataUrl, url]))).toBe(small);
});

it("log and summary request hold no image, the next request holds it whole", async () => {
  const store = await openTestStore();
  await store.enqueue([newTask()]);
  const workerId = await store.registerWorker(identity, { version: "1", leaseMs: 60_000 });
  const row = await store.claim(workerId);
  if (!row) throw new Error("expected a run to claim");
  const claim = claimOf(row);
  const log = openRunLog({ store, claim, protocol, activeMs: () => 0 });
  const begun = { prompt: JSON.stringify(prompt), spec: "{}", model: "m", baseCommit: null, baseTree: null };
  log.start(prompt, await store.begin(claim, begun), withImages);
  for (const id of ["a", "b", "c", "d", "e", "f"]) {
    const call = { id, type: "function", function: { name: "bash", arguments: "{}" } };
    take({ claim, log }, turnOf({ content: "x".repeat(2_000), tool_calls: [call] }, "tool_calls", [id]));
  }
  const model = scriptedModel(() => say("## Done\nthe record"));
  const agent = agentOf({ claim, log }, model, { budgetTokens: 6_000, images: new Map([["abc", dataUrl]]) });
  expect(await compact(agent)).toBe(true);
  await think(agent);
  await log.committed();
  const [summary, next] = model.requests.map(({ messages }) => messages[1]?.content);
  expect(summary).toContain("What is on it?\n[image]\n[image: https://a.example/b.png]");
  expect(next).toEqual([
    { type: "text", text: "What is on it?" },
    image(dataUrl),
    image(url),
    { type: "text", text: expect.stringContaining("the record") },
  ]);
  const stored = (await store.loadMessages(row.id)).map(({ body, tokens }) => ({
    size: body.length,
    tokens,
  }));
  expect(stored[1]?.size).toBeLessThan(300);
  expect(stored[1]?.tokens).toBe(estimateMessageTokens(withImages));
});
