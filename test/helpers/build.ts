import { execFileSync } from "node:child_process";

/** Tests start real `pawl` processes from dist; building first keeps them on the code under test. */
export default function build(): void {
  execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
}
