import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { displayWidth } from "../../src/report/text.ts";
import { startPawl } from "../helpers/pawl-process.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

/** A few seconds where the machine has nothing else to do. */
const limitMs = 150_000;

test.each([
  [
    "format",
    /model +I look.*```bash\n.*pawl says +Your last reply.*bash-action.*model .*```bash-action\n.*hello\.txt/s,
  ],
  ["timeout", /→ bash .*tail -f.*pawl says +Error: .*timed out.*Nothing\s+interactive.*→ bash .*cat hello/s],
  ["unknown-tool", /→ open_file.*pawl says +Error: there is no tool "open_file".*→ read_file.*hello world/s],
])(
  "demo --break %s shows a model being told of its mistake and recovering",
  async (mistake, conversation) => {
    const folder = temporaryFolder();
    const demo = startPawl(["demo", "--break", mistake], { cwd: folder, env: { TMPDIR: folder } });
    expect(await demo.ended(limitMs)).toMatchObject({ code: 0 });
    expect(demo.stderr()).toBe("");
    expect(demo.stdout()).toMatch(conversation);
    expect(demo.stdout()).toMatch(/succeeded after 3 steps: the model was told and recovered\n$/);
    expect(
      demo
        .stdout()
        .split("\n")
        .filter((line) => displayWidth(line) > 80),
    ).toEqual([]);
    expect(readdirSync(folder)).toEqual([]);
  },
);

test("the demo kills a worker and proves that nothing was lost, in plain lines that fit a terminal", async () => {
  const folder = temporaryFolder();
  const demo = startPawl(["demo"], { cwd: folder, env: { TMPDIR: folder } });
  expect(await demo.ended(limitMs)).toMatchObject({ code: 0 });
  const stdout = demo.stdout();
  expect(demo.stderr()).toBe("");
  expect(stdout).toMatch(/^2\. kill -9 \d+ /m);
  expect(stdout.match(/succeeded +6 +\d +index\.js +passes$/gm)).toHaveLength(5);
  expect(stdout).toMatch(/^ {3}0 of \d+ replies committed before the kill were asked for again$/m);
  expect(stdout).toMatch(/^ {3}0 of 15 shell commands ran twice$/m);
  expect(stdout).not.toContain("\u001b");
  expect(stdout.split("\n").filter((line) => displayWidth(line) > 80)).toEqual([]);
}, 180_000);
