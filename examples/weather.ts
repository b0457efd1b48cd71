// A tool for every run of a folder. Name it in its pawl.config.json: { "tools": ["./weather.ts"] }
import { defineTool, RecoverableError } from "pawl";
import { z } from "zod";

interface Forecast {
  current_condition: { temp_C: string; weatherDesc: { value: string }[] }[];
}

/** The address of the service; wttr.in needs no key. */
const service = process.env.WEATHER_URL ?? "https://wttr.in";
const timeoutMs = 10_000;

export const weather = defineTool({
  name: "weather",
  description: 'Tells the weather of a city at this moment. Example: {"city": "Oslo"}',
  parameters: z.object({ city: z.string().min(1).describe("name of the city, in any language") }),
  // It only reads: a call that was cut off is simply made again.
  class: "pure",
  async run({ city }, { signal }) {
    const url = `${service}/${encodeURIComponent(city)}?format=j1`;
    const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]) });
    // The model reads this and can try another spelling.
    if (!response.ok) throw new RecoverableError(`the weather service knows no city ${city}`);
    const [now] = ((await response.json()) as Forecast).current_condition;
    return `${city}: ${now?.weatherDesc[0]?.value ?? "unknown"}, ${now?.temp_C ?? "?"} °C`;
  },
});
