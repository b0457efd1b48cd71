import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import { applyToCheckout } from "../../src/workspace/apply.ts";
import { readPatch } from "../../src/workspace/patch-file.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();
const look = "git status --porcelain=v2 --branch; git for-each-ref; git diff --cached; cat a.txt b.txt";

/** A run that changed line 2 of a.txt, made new.txt and deleted b.txt. */
async function patchOf(repo: string): Promise<Buffer> {
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(workspace.path, "sed -i 's/^2$/two/' a.txt; printf '\\0x' > new.txt; rm b.txt");
  await fixture.finish("r1", workspace);
  return (await readPatch(fixture.run("r1"))) ?? Buffer.alloc(0);
}

function numbered(): string {
  const repo = fixture.repository();
  fixture.sh(repo, "seq 9 > a.txt; git commit -qam numbers");
  return repo;
}

test("the change arrives in the checkout, next to the user's own, and nothing is staged", async () => {
  const repo = numbered();
  const patch = await patchOf(repo);
  fixture.sh(repo, "sed -i 's/^9$/mine/' a.txt; echo staged > s.txt; git add s.txt; mkdir sub");
  const applied = await applyToCheckout({ patch, checkout: path.join(repo, "sub") });
  expect(applied.files).toEqual(["a.txt", "b.txt", "new.txt"]);
  expect(fixture.sh(repo, "git status --porcelain; sed -n '2p;9p' a.txt; od -An -c new.txt")).toBe(
    "M a.txt\n D b.txt\nA  s.txt\n?? new.txt\ntwo\nmine\n  \\0   x",
  );
});

test("where the lines around have changed the change is merged, and nothing is staged", async () => {
  const repo = numbered();
  const patch = await patchOf(repo);
  fixture.sh(repo, "sed -i 's/^4$/four/' a.txt; git commit -qam around");
  await applyToCheckout({ patch, checkout: repo });
  expect(fixture.sh(repo, "git status --porcelain; git diff --cached; head -4 a.txt")).toBe(
    "M a.txt\n D b.txt\n?? new.txt\n1\ntwo\n3\nfour",
  );
});

test.each(["true", "git add -A; git commit -qm applied; sed -i 's/^9$/mine/' a.txt"])(
  "a change that is there already stays as it is, after: %s",
  async (script) => {
    const repo = numbered();
    const patch = await patchOf(repo);
    await applyToCheckout({ patch, checkout: repo });
    fixture.sh(repo, script);
    const before = fixture.sh(repo, "git status --porcelain; git diff; cat a.txt; ls");
    expect(await applyToCheckout({ patch, checkout: repo })).toEqual({ files: [], isThere: true });
    expect(fixture.sh(repo, "git status --porcelain; git diff; cat a.txt; ls")).toBe(before);
  },
);

test.each([
  ["a committed line", "sed -i 's/^2$/zwei/' a.txt; git commit -qam mine", "a.txt"],
  ["an uncommitted line", "sed -i 's/^2$/zwei/' a.txt", "a.txt"],
  ["an untracked file in the way", "echo mine > new.txt", "new.txt"],
  ["a missing file", "git rm -q b.txt; git commit -qm gone", "b.txt"],
])("%s that does not fit changes nothing and is named", async (_, script, file) => {
  const repo = numbered();
  const patch = await patchOf(repo);
  fixture.sh(repo, script);
  const before = fixture.sh(repo, `${look} 2>/dev/null || true; ls`);
  const failed = applyToCheckout({ patch, checkout: repo });
  await expect(failed).rejects.toThrow(ConfigError);
  await expect(failed).rejects.toThrow(new RegExp(`in conflict: ${file}\\. `));
  expect(fixture.sh(repo, `${look} 2>/dev/null || true; ls`)).toBe(before);
});

test("an empty patch changes nothing, and a folder that is no checkout is refused", async () => {
  const repo = numbered();
  expect(await applyToCheckout({ patch: Buffer.alloc(0), checkout: repo })).toEqual({
    files: [],
    isThere: false,
  });
  const plain = path.join(fixture.root, "plain");
  mkdirSync(plain);
  writeFileSync(path.join(plain, "a.txt"), "1\n2\n");
  await expect(applyToCheckout({ patch: Buffer.alloc(0), checkout: plain })).rejects.toThrow(
    /expected the checkout of a git repository, got .*plain/,
  );
});
