import type { Store } from "../db/store.ts";
import type { RunPaths } from "../paths.ts";
import type { Redact } from "../redact.ts";
import { dropNews, type WorkspaceNews } from "../workspace/record.ts";

/** The news of a workspace that no message of the run's log holds. What is told by now leaves the workspace's record. */
export async function untoldNews(options: {
  store: Store;
  run: RunPaths;
  runId: string;
  news: WorkspaceNews[];
  redact: Redact;
}): Promise<WorkspaceNews[]> {
  const { store, run, runId, news, redact } = options;
  if (news.length === 0) return [];
  const messages = await store.loadMessages(runId, Math.min(...news.map(({ afterSeq }) => afterSeq)));
  const isTold = ({ text, afterSeq }: WorkspaceNews) => {
    const written = redact(JSON.stringify(text).slice(1, -1));
    return messages.some(({ seq, body }) => seq > afterSeq && body.includes(written));
  };
  const told = news.filter(isTold);
  if (told.length > 0) await dropNews(run, told);
  return news.filter((each) => !told.includes(each));
}
