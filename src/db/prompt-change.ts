import { and, sql } from "drizzle-orm";
import { blobWriter } from "./blobs.ts";
import type { Claim } from "./claim.ts";
import { recordEvent } from "./events.ts";
import { isOwned, lostLease } from "./fence.ts";
import { messageInsert } from "./log-statements.ts";
import type { RunEvent } from "./run-events.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** What takes the place of what the first owner fixed, before the model has said anything. */
export interface PromptChange {
  /** System prompt and tool schemas. */
  prompt: string;
  spec: string;
  /** Of the message that names the new prompt. */
  seq: number;
  tokens: number;
  event: RunEvent;
}

export function promptChangeVerbs(context: StoreContext) {
  const { db, write, now } = context;
  const { placeholder } = sql;
  const saveBlob = blobWriter(context);
  const record = recordEvent(context);
  const insertMessage = messageInsert(context);
  const change = db
    .update(runs)
    .set({
      promptHash: sql`${placeholder("promptHash")}`,
      spec: sql`${placeholder("spec")}`,
      seq: sql`${placeholder("seq")}`,
    })
    .where(and(isOwned(), sql`${runs.seq} = ${placeholder("seq")} - 1`))
    .prepare();

  return {
    /** Gives a run that has no reply yet another prompt: the newest system message counts. One commit. */
    changePrompt(claim: Claim, { prompt, spec, seq, tokens, event }: PromptChange): Promise<void> {
      return write(() => {
        const promptHash = saveBlob(prompt);
        const { changes } = change.run({ ...claim, now: now(), promptHash, spec, seq });
        if (changes === 0) throw lostLease(claim);
        const body = JSON.stringify({ role: "system", prompt: promptHash });
        const place = { runId: claim.runId, epoch: claim.epoch, seq, step: 0, ordinal: null };
        insertMessage.run({ ...place, kind: "system", body, tokens, at: now() });
        record({ ...claim, ...event });
      });
    },
  };
}
