import { describe, expect, it } from "vitest";
import { mergeParameters, secretsOfHeaders } from "../../src/config/model-parameters.ts";
import { loadConfig } from "../../src/config.ts";
import { checkTaskFields, fieldsFromFlags } from "../../src/producer/fields.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

function problemOf(modelParameters: unknown): string {
  const checked = checkTaskFields({ prompt: "x", modelParameters });
  return "problems" in checked ? checked.problems.map(({ message }) => message).join() : "";
}

describe("what a task says of model parameters", () => {
  it("is taken as it is, from a line and as JSON from a flag", () => {
    const given = {
      temperature: 0,
      seed: 7,
      maxOutputTokens: 900,
      reasoningEffort: "low",
      extraBody: { top_p: 0.5, tool_choice: "auto", deep: { list: [1, null] } },
      extraHeaders: { "X-Run": "nightly" },
    };
    expect(checkTaskFields({ modelParameters: given })).toEqual({ data: { modelParameters: given } });
    const flags = { modelParameters: JSON.stringify(given) };
    expect(fieldsFromFlags({ flags, cwd: "/" })).toEqual({ modelParameters: given });
  });

  it.each([
    [{ temprature: 1 }, 'temprature: unknown (did you mean "temperature"?)'],
    [{ temperature: "hot" }, 'temperature: expected a number from 0 to 2, got "hot"'],
    [{ temperature: 3 }, "temperature: expected a number from 0 to 2, got 3"],
    [{ seed: 1.5 }, /^seed: expected a whole number .*got 1.5$/],
    [{ maxOutputTokens: 0 }, /^maxOutputTokens: expected a whole number of tokens .*got 0$/],
    [{ reasoningEffort: 3, seed: -1 }, /seed: expected .*; reasoningEffort: expected/],
    [{ extraBody: [] }, /^extraBody: expected an object of more members .*got a list$/],
    [{ extraBody: { model: "other" } }, "extraBody.model: cannot be set here: set the model"],
    [{ extraBody: { messages: [] } }, "extraBody.messages: cannot be set here: the log of the run makes it"],
    [{ extraBody: { tools: [] } }, "extraBody.tools: cannot be set here: set tools"],
    [{ extraBody: { stream: true } }, "extraBody.stream: cannot be set here: leave it out"],
    [{ extraBody: { max_tokens: 9 } }, "extraBody.max_tokens: cannot be set here: set maxOutputTokens"],
    [{ extraHeaders: { "a b": "c" } }, "extraHeaders.a b: expected the name of a header"],
    [{ extraHeaders: { Host: "c" } }, "extraHeaders.Host: cannot be set here: leave it out"],
    [{ extraHeaders: { "X-A": "b\r\nX-B: c" } }, "extraHeaders.X-A: expected printable ASCII characters"],
    ["{", 'expected an object such as {"temperature": 0}, got "{"'],
    [[], 'expected an object such as {"temperature": 0}, got a list'],
  ])("is refused: %j", (given, message) => {
    expect(problemOf(given)).toMatch(message);
  });

  it.each(["Authorization", "X-Api-Key", "Cookie", "X-Gateway-Token"])(
    "may not hold the header %s, which would be stored, and the message does not repeat it",
    (name) => {
      const problem = problemOf({ extraHeaders: { [name]: "hush-hush" } });
      expect(problem).toContain("would be stored with the task: set it in modelParameters of the config");
      expect(problem).not.toContain("hush-hush");
    },
  );
});

describe("the configured model parameters", () => {
  const load = (settings: object) =>
    loadConfig({ cwd: temporaryFolder({ "pawl.config.json": JSON.stringify(settings) }), env: {} });

  it("may hold secret headers, and their limit of a reply is the one that holds", async () => {
    const modelParameters = { maxOutputTokens: 700, extraHeaders: { Authorization: "Bearer t" } };
    const config = await load({ maxOutputTokens: 900, modelParameters });
    expect(config).toMatchObject({ maxOutputTokens: 700, modelParameters });
  });

  it("are checked as those of a task, and the file is named", async () => {
    await expect(load({ modelParameters: { extraBody: { stream: true } } })).rejects.toThrow(
      /pawl\.config\.json: modelParameters: extraBody\.stream: cannot be set here/,
    );
  });

  it("stand where the task says nothing, the extra body member by member, the headers not at all", () => {
    const modelParameters = {
      temperature: 1,
      seed: 1,
      extraBody: { top_p: 1, top_k: 1 },
      extraHeaders: { Authorization: "Bearer t" },
    };
    const own = { temperature: 0, extraBody: { top_k: 2 }, extraHeaders: { "X-Run": "a" } };
    expect(mergeParameters({ modelParameters, maxOutputTokens: 500 }, own)).toEqual({
      temperature: 0,
      seed: 1,
      maxOutputTokens: 500,
      extraBody: { top_p: 1, top_k: 2 },
      extraHeaders: { "X-Run": "a" },
    });
    const nothing = { modelParameters: { extraHeaders: { a: "b" } }, maxOutputTokens: null };
    expect(mergeParameters(nothing)).toEqual({});
  });

  it("have secrets in every header but those that are public by their names", () => {
    const headers = { "X-Gateway": "Basic abc", "HTTP-Referer": "https://a.example", "User-Agent": "me" };
    expect(secretsOfHeaders(headers)).toEqual(["Basic abc", "abc"]);
  });
});
