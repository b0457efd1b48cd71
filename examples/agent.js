// An agent with a tool of your own, run here and now: node examples/agent.js "PROMPT"
// Needs OPENAI_API_KEY, or OPENAI_BASE_URL and OPENAI_MODEL.
import { defineTool, runAgent } from "pawl";

const dice = defineTool({
  name: "roll_dice",
  description: "Rolls dice with six sides and gives their sum.",
  parameters: { type: "object", properties: { count: { type: "integer", minimum: 1 } }, required: ["count"] },
  run: async ({ count }) => {
    const rolls = Array.from({ length: count }, () => 1 + Math.floor(Math.random() * 6));
    return `${rolls.join(" + ")} = ${rolls.reduce((sum, roll) => sum + roll, 0)}`;
  },
});

const [prompt = "Roll three dice and tell me the sum."] = process.argv.slice(2);
const run = await runAgent({ prompt }, { tools: [dice] });
console.log(run.status, run.result ?? run.error);
