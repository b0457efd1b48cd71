import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import { chooseImages, inspectImage, storeImages } from "../../src/producer/images.ts";
import { tasksFromInputs } from "../../src/producer/new-task.ts";
import { parseTaskFile } from "../../src/producer/task-file.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const heads = {
  "a.png": "\x89PNG\r\n\x1a\n",
  "b.jpg": "\xff\xd8\xff\xe0",
  "c.gif": "GIF89a",
  "d.webp": "RIFF\x00\n\x00\x00WEBPVP8 ",
};

function folderOf(files: Record<string, string> = heads): string {
  const folder = temporaryFolder();
  for (const [name, content] of Object.entries(files))
    writeFileSync(path.join(folder, name), Buffer.from(content, "latin1"));
  return folder;
}

const taskWith = (cwd: string, images: string[]) =>
  tasksFromInputs({ inputs: [{ prompt: "look", images }], cwd, defaults: {} })[0];
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

it.each([
  ["a.png", "image/png"],
  ["b.jpg", "image/jpeg"],
  ["c.gif", "image/gif"],
  ["d.webp", "image/webp"],
])("%s is known by its first bytes, and named by the hash of its data URL", (name, type) => {
  const file = path.join(folderOf(), name);
  const content = readFileSync(file);
  const hash = sha256(`data:${type};base64,${content.toString("base64")}`);
  expect(inspectImage(file)).toEqual({ image: { hash, type, bytes: content.length, name } });
});

it("a task holds hashes and addresses, in the order given, and where the files are until they are stored", () => {
  const cwd = folderOf();
  const task = taskWith(cwd, ["b.jpg", "https://a.example/x.png?a=1,2", "./a.png"]);
  expect(task?.spec.images).toMatchObject([
    { name: "b.jpg", type: "image/jpeg" },
    { url: "https://a.example/x.png?a=1,2" },
    { name: "a.png", type: "image/png" },
  ]);
  expect(task?.imageFiles?.map(({ file }) => file)).toEqual([
    path.join(cwd, "b.jpg"),
    path.join(cwd, "a.png"),
  ]);
});

it.each([
  [["none.png"], /images: expected a file that can be read, got .*none\.png/],
  [["text.png"], /images: expected a PNG, JPEG, GIF or WebP image, got something else: .*text\.png/],
  [["."], /images: expected a file that can be read/],
  [["data:image/png;base64,AAAA"], /images: expected a path, or a URL with http or https/],
  [["ftp://a.example/x.png"], /images: expected a path, or a URL with http or https/],
  [["https://me:hush@a.example/x.png"], /images: expected a URL without a password$/],
  [Array.from({ length: 21 }, () => "https://a.example/x.png"), /images: expected at most 20, got 21/],
])("images such as %j are refused with what was expected", (images, message) => {
  const cwd = folderOf({ "text.png": "not an image" });
  expect(() => taskWith(cwd, images)).toThrow(message);
});

it("a pipe is no image, and is not waited for", () => {
  const cwd = temporaryFolder();
  execFileSync("mkfifo", [path.join(cwd, "pipe.png")]);
  expect(() => taskWith(cwd, ["pipe.png"])).toThrow(/expected a file that can be read, got .*pipe\.png/);
});

it("files that are too large, alone or together, are refused", () => {
  const cwd = folderOf();
  for (const name of ["a.png", "b.jpg", "c.gif"]) truncateSync(path.join(cwd, name), 9 * 1024 * 1024);
  truncateSync(path.join(cwd, "d.webp"), 10 * 1024 * 1024 + 1);
  expect(() => taskWith(cwd, ["d.webp"])).toThrow(/at most 10485760 bytes, got 10485761/);
  expect(() => taskWith(cwd, ["a.png", "b.jpg", "c.gif"])).toThrow(
    /at most 20971520 bytes together, got 28311552/,
  );
  expect(taskWith(cwd, ["a.png", "b.jpg"])?.spec.images).toHaveLength(2);
});

it("each line of a file has its own images, relative to the file, and another file is another task", () => {
  const baseDir = folderOf();
  const lines = ["a.png", "b.jpg"].map((name) => JSON.stringify({ prompt: "look", images: [name] }));
  const tasks = parseTaskFile({
    content: lines.join("\n"),
    format: "jsonl",
    name: "t",
    baseDir,
    batch: null,
  });
  expect(tasks.map(({ spec }) => spec.images)).toMatchObject([[{ name: "a.png" }], [{ name: "b.jpg" }]]);
  expect(new Set(tasks.map(({ key }) => key)).size).toBe(2);
});

it("a file is stored once however many tasks name it, and not at all where it has changed meanwhile", async () => {
  const cwd = folderOf();
  const tasks = [taskWith(cwd, ["a.png", "b.jpg"]), taskWith(cwd, ["a.png"])].flatMap((task) => task ?? []);
  const stored: string[] = [];
  const put = async (text: string) => {
    stored.push(text);
    return sha256(text);
  };
  await storeImages(tasks, put);
  expect(stored.map((text) => text.slice(0, 22))).toEqual([
    "data:image/png;base64,",
    "data:image/jpeg;base64",
  ]);
  writeFileSync(path.join(cwd, "a.png"), Buffer.from(`${heads["a.png"]}more`, "latin1"));
  await expect(storeImages(tasks, put)).rejects.toThrow(ConfigError);
  await expect(storeImages(tasks, put)).rejects.toThrow(
    /a\.png: expected the image that was there a moment ago/,
  );
});

it("nothing is known of an image that is a URL but the URL", () => {
  const found = chooseImages(["http://a.example/x"], () => undefined);
  expect(found).toEqual({ images: [{ url: "http://a.example/x" }], files: [], problems: [] });
});
