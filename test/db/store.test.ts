import path from "node:path";
import { openStore } from "../../src/db/store.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { describeStore } from "./store.suite.ts";

describeStore("the store in a SQLite file", ({ now }) =>
  openStore({ file: path.join(temporaryFolder(), "pawl.db"), now }),
);
