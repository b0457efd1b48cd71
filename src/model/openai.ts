import type { IncomingMessage } from "node:http";
import OpenAI from "openai";
import { ModelError, messageOf } from "../errors.ts";
import { type Deadline, type Timeouts, timeoutsFor, withDeadline } from "./deadline.ts";
import { requireEndpoint } from "./endpoint.ts";
import { modelErrorOf, oneLine, placeOf } from "./failure.ts";
import { parseJson } from "./json.ts";
import type { Model, ModelReply, ModelRequest, ToolSchema } from "./model.ts";
import { parameterBody, redactHeaders } from "./parameters.ts";
import { allowsStop, type Profile, profileOf } from "./profiles.ts";
import { type Received, receive } from "./receive.ts";
import { type Answered, readReply } from "./reply.ts";
import { bridgeRoles } from "./roles.ts";
import { createTransport, type Transport } from "./transport.ts";

export interface OpenaiOptions {
  /** Such as `https://api.openai.com/v1`. */
  baseUrl: string;
  /** Null or empty for a server that needs none. */
  apiKey: string | null;
  /** Bounds of a request; the rest are defaults. */
  timeouts?: Partial<Timeouts>;
  /** False to get replies in one piece. Where a server refuses to stream that is done anyway. */
  stream?: boolean;
  /** Sent with every request. Their values are in no error's message. */
  headers?: Record<string, string> | undefined;
  /** Guessed from the base URL if left out. */
  profile?: Profile;
}

/** How a reply is asked for: as a stream that ends with the count of tokens, as a stream, in one piece. */
type Mode = "counted" | "stream" | "whole";

/** What a request is sent with. */
interface Connection {
  client: OpenAI;
  transport: Transport;
  profile: Profile;
  baseUrl: string;
  redact(text: string): string;
}

/**
 * A model behind an OpenAI-compatible server. One request a question, but where the server refuses to stream: asking again
 * is the agent's work (`agent/request.ts`). Throws ConfigError at once for a base URL or key that no request could carry. The key is in no
 * error's message.
 */
export function openaiModel(options: OpenaiOptions): Model {
  const { baseUrl } = options;
  const apiKey = options.apiKey?.trim() || null;
  requireEndpoint(baseUrl, apiKey);
  const profile = options.profile ?? profileOf(baseUrl);
  const timeouts = timeoutsFor(baseUrl, options.timeouts);
  const withoutHeaders = redactHeaders(options.headers);
  const connection: Connection = {
    client: createClient(baseUrl, apiKey, options.headers),
    transport: createTransport(),
    profile,
    baseUrl,
    redact: (text) => withoutHeaders(apiKey ? text.replaceAll(apiKey, "[key]") : text),
  };
  let mode: Mode = options.stream === false ? "whole" : profile.asksStreamUsage ? "counted" : "stream";
  return {
    async ask(request, signal) {
      for (;;) {
        const asked = mode;
        try {
          return await withDeadline({ signal, timeouts, baseUrl }, (deadline) =>
            send(connection, { request, mode: asked, deadline }),
          );
        } catch (error) {
          const simpler = error instanceof ModelError ? simplerMode(asked, error) : undefined;
          // Ends: each refusal leaves a mode less.
          if (simpler === undefined) throw error;
          mode = simpler;
        }
      }
    },
  };
}

function createClient(
  baseURL: string,
  apiKey: string | null,
  headers: Record<string, string> | undefined,
): OpenAI {
  return new OpenAI({
    baseURL,
    apiKey: apiKey ?? "none",
    adminAPIKey: null,
    defaultHeaders: { ...(!apiKey && { Authorization: null }), ...headers },
    logLevel: "off",
  });
}

/** What to ask for instead where a server refuses; undefined where that is not why it refused. */
function simplerMode(mode: Mode, { unsupported }: ModelError): Mode | undefined {
  if (mode === "counted" && unsupported === "stream_options") return "stream";
  return mode !== "whole" && unsupported === "stream" ? "whole" : undefined;
}

interface Sending {
  request: ModelRequest;
  mode: Mode;
  deadline: Deadline;
}

async function send(connection: Connection, { request, mode, deadline }: Sending): Promise<ModelReply> {
  const { client, profile, baseUrl, redact } = connection;
  const body = { ...requestBody(request, profile), ...modeBody(mode) };
  const headers = request.parameters?.extraHeaders ?? {};
  const { req, url } = await client.buildRequest({
    method: "post",
    path: "/chat/completions",
    body,
    headers,
  });
  const response = await post(connection, { url, headers: req.headers, body: String(req.body), deadline });
  const { onDelta } = request;
  const received = await receive(response, { heard: deadline.heard, onDelta, redact });
  const answers = new Headers(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
  const answered = { status: response.statusCode ?? 0, headers: answers, baseUrl, redact };
  return understand(received, answered);
}

function modeBody(mode: Mode) {
  if (mode === "whole") return {};
  return { stream: true, ...(mode === "counted" && { stream_options: { include_usage: true } }) };
}

function requestBody(request: ModelRequest, profile: Profile) {
  const { model, messages, tools = [], maxOutputTokens, stop } = request;
  return {
    ...parameterBody(request, profile),
    model,
    messages: profile.allowsAnyOrder ? messages : bridgeRoles(messages),
    ...(tools.length > 0 && { tools: tools.map(toolBody) }),
    ...(maxOutputTokens !== undefined && { [profile.tokensParameter]: maxOutputTokens }),
    ...(stop && allowsStop(profile, model) && { stop }),
  };
}

function toolBody({ name, description, parameters }: ToolSchema) {
  return { type: "function" as const, function: { name, description, parameters } };
}

async function post(
  { transport, baseUrl, redact }: Connection,
  request: { url: string; headers: Headers; body: string; deadline: Deadline },
): Promise<IncomingMessage> {
  const { deadline, ...rest } = request;
  let isConnected = false;
  const onConnect = () => {
    isConnected = true;
    deadline.connected();
  };
  try {
    return await transport({ ...rest, signal: deadline.signal, onConnect });
  } catch (error) {
    const what = isConnected ? "lost the connection to" : "cannot reach";
    const reason = oneLine(redact(rootMessage(error)));
    const message = `${what} the model server at ${new URL(baseUrl).origin}: ${reason}`;
    throw new ModelError("retry", message, { mayBeBilled: isConnected });
  }
}

function understand(received: Received, answered: Answered & { status: number }): ModelReply {
  const { status, headers, baseUrl, redact } = answered;
  const body = "body" in received ? received.body : parseJson(received.text);
  if (status < 200 || status >= 300) {
    const said = body ?? ("text" in received ? received.text : "");
    throw modelErrorOf({ status, body: said, headers, baseUrl, hasBegun: false }, redact);
  }
  const reply = readReply(body ?? ("text" in received ? received.text : ""), answered);
  if ("isWhole" in received && !received.isWhole) {
    throw new ModelError("retry", `the stream from ${placeOf(baseUrl)} ended before the reply did`);
  }
  return reply;
}

const maxCauses = 5;

/** What is at the bottom of an error: the network's own words. */
function rootMessage(error: unknown): string {
  let root = error;
  for (let depth = 0; depth < maxCauses && root instanceof Error && root.cause instanceof Error; depth += 1)
    root = root.cause;
  // Where several addresses were tried, each has an error of its own.
  if (root instanceof AggregateError && root.errors.length > 0) root = root.errors[0];
  const code = root instanceof Error && "code" in root && typeof root.code === "string" ? root.code : "";
  return messageOf(root) || code || "no details";
}
